"""Deployment settings in the API."""

from collections.abc import Sequence
from enum import Enum

import strawberry

from controlplane.domain.access import INSTALLATION
from controlplane.domain.deployment import DeploymentSettings as SettingsRow
from controlplane.graphql.access import PolicyBinding, bindings_of
from controlplane.graphql.context import Info
from controlplane.graphql.repositories import GitRepository
from controlplane.usecases.deployment import DeploymentSettingsChange
from controlplane.usecases.rights import BindingView
from core import __version__


@strawberry.enum
class AiProvider(Enum):
    """AI provider of compatible clients. Not used."""

    OPENAI = "OPENAI"
    """OpenAI."""
    ANTHROPIC = "ANTHROPIC"
    """Anthropic."""


@strawberry.type
class OpenaiSettings:
    """OpenAI settings of compatible clients. Never returned."""

    model: str | None
    """Model name."""


@strawberry.type
class AnthropicSettings:
    """Anthropic settings of compatible clients. Never returned."""

    model: str | None
    """Model name."""


@strawberry.type
class AiSettings:
    """AI settings of compatible clients. Never returned, since Towline has no AI features."""

    enabled: bool | None
    """True if AI is enabled."""
    provider: AiProvider | None
    """AI provider."""
    openai: OpenaiSettings | None
    """OpenAI settings."""
    anthropic: AnthropicSettings | None
    """Anthropic settings."""


@strawberry.type
class DeploymentSettingsType:
    """Settings for agent installations."""

    id: strawberry.ID
    name: str
    """Always `global`."""
    agent_helm_values: str | None
    """Helm values (YAML) for the agent chart. Null for the defaults of the chart."""
    agent_helm_values_templateable: bool | None
    """True if the values are a Liquid template with the variable `cluster`."""
    agent_vsn: str
    """Version of agents that belongs to this control plane."""
    read_bindings: list[PolicyBinding]
    """Users and groups with the role `viewer` on the installation."""
    write_bindings: list[PolicyBinding]
    """Users and groups with the role `editor` on the installation."""
    create_bindings: list[PolicyBinding]
    """Same as `writeBindings`."""
    artifact_repository: GitRepository | None = None
    """Always null. Present for compatibility."""
    deployer_repository: GitRepository | None = None
    """Always null. Present for compatibility."""
    ai: AiSettings | None = None
    """Always null. Present for compatibility."""

    @classmethod
    def of(cls, row: SettingsRow, bindings: Sequence[BindingView] = ()) -> "DeploymentSettingsType":
        editors = bindings_of(bindings, INSTALLATION, "editor")
        return cls(
            id=strawberry.ID(row.id),
            name="global",
            agent_helm_values=row.agent_values,
            agent_helm_values_templateable=row.agent_values_templated,
            agent_vsn=__version__,
            read_bindings=bindings_of(bindings, INSTALLATION, "viewer"),
            write_bindings=editors,
            create_bindings=editors,
        )


@strawberry.input
class DeploymentSettingsAttributes:
    """Settings for agent installations. A field that is null or absent stays as it is; an empty
    string clears it."""

    agent_helm_values: str | None = None
    """Helm values (YAML) for the agent chart. Limit: 64 KiB."""
    agent_helm_values_templateable: bool | None = None
    """True if the values are a Liquid template with the variable `cluster`."""

    def change(self) -> DeploymentSettingsChange:
        return DeploymentSettingsChange(self.agent_helm_values, self.agent_helm_values_templateable)


@strawberry.type
class DeploymentQuery:
    @strawberry.field
    async def deployment_settings(self, info: Info) -> DeploymentSettingsType | None:
        """Settings for agent installations."""
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.deployment.settings(actor)
        return DeploymentSettingsType.of(row, await verbs.rights.bindings(actor, INSTALLATION))


@strawberry.type
class DeploymentMutation:
    @strawberry.mutation
    async def update_deployment_settings(
        self, info: Info, attributes: DeploymentSettingsAttributes
    ) -> DeploymentSettingsType | None:
        """Updates the settings for agent installations.

        Args:
            attributes: Fields to change.
        """
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.deployment.change(actor, attributes.change())
        return DeploymentSettingsType.of(row, await verbs.rights.bindings(actor, INSTALLATION))
