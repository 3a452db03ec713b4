"""Deployment settings in the API."""

from enum import Enum

import strawberry

from controlplane.access.api.types import PolicyBinding, bindings_of
from controlplane.access.operations.roles import AccessControl
from controlplane.authorization import INSTALLATION
from controlplane.clusters.model.agent_settings import DeploymentSettings as SettingsRow
from controlplane.clusters.operations.agent_settings import (
    DeploymentSettingsChange,
    DeploymentSettingsOperations,
)
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, Output, draft, output
from controlplane.repositories.api.repositories import GitRepository
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


@output(
    SettingsRow,
    rename={
        "agent_helm_values": "agent_values",
        "agent_helm_values_templateable": "agent_values_templated",
    },
    hide={"updated_at"},
)
class DeploymentSettingsType(Output[SettingsRow]):
    """Settings for agent installations."""

    name: str = "global"
    """Always `global`."""
    agent_helm_values_templateable: bool | None
    agent_vsn: str = __version__
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


@draft(
    DeploymentSettingsChange,
    rename={
        "agent_helm_values": "agent_values",
        "agent_helm_values_templateable": "agent_values_templated",
    },
)
class DeploymentSettingsAttributes(Draft[DeploymentSettingsChange]):
    """Settings for agent installations. A field that is null or absent stays as it is; an empty
    string clears it."""


@strawberry.type
class DeploymentQuery:
    @strawberry.field
    async def deployment_settings(self, info: Info) -> DeploymentSettingsType | None:
        """Settings for agent installations."""
        context = info.context
        return await _type(
            context, await context[DeploymentSettingsOperations].settings(context.actor)
        )


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
        context, change = info.context, attributes.change()
        row = await context[DeploymentSettingsOperations].change(context.actor, change)
        return await _type(context, row)


async def _type(context: Context, row: SettingsRow) -> DeploymentSettingsType:
    bindings = await context[AccessControl].bindings_of_resources(context.actor, INSTALLATION)
    editors = bindings_of(bindings, INSTALLATION, "editor")
    return DeploymentSettingsType.of(
        row,
        read_bindings=bindings_of(bindings, INSTALLATION, "viewer"),
        write_bindings=editors,
        create_bindings=editors,
    )
