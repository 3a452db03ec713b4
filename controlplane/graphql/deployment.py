"""Deployment settings in the API."""

from collections.abc import Sequence
from enum import Enum

import strawberry

from controlplane.domain.access import INSTALLATION
from controlplane.domain.deployment import DeploymentSettings as SettingsRow
from controlplane.graphql.access import PolicyBinding, bound
from controlplane.graphql.context import Info
from controlplane.graphql.repositories import GitRepository
from controlplane.usecases.deployment import SettingsChange
from controlplane.usecases.rights import BindingView
from fleet import __version__


@strawberry.enum
class AiProvider(Enum):
    OPENAI = "OPENAI"
    ANTHROPIC = "ANTHROPIC"


@strawberry.type
class OpenaiSettings:
    model: str | None


@strawberry.type
class AnthropicSettings:
    model: str | None


@strawberry.type
class AiSettings:
    """There is nothing of that kind here: always null."""

    enabled: bool | None
    provider: AiProvider | None
    openai: OpenaiSettings | None
    anthropic: AnthropicSettings | None


@strawberry.type
class DeploymentSettings:
    """What who installs an agent is told. `agentHelmValues` are values (YAML) for its chart; with
    `agentHelmValuesTemplateable` they hold Liquid to be filled in with the cluster. The bindings
    are those of the whole installation."""

    id: strawberry.ID
    name: str
    agent_helm_values: str | None
    agent_helm_values_templateable: bool | None
    agent_vsn: str
    read_bindings: list[PolicyBinding]
    write_bindings: list[PolicyBinding]
    create_bindings: list[PolicyBinding]
    artifact_repository: GitRepository | None = None
    deployer_repository: GitRepository | None = None
    ai: AiSettings | None = None

    @classmethod
    def of(cls, row: SettingsRow, bindings: Sequence[BindingView] = ()) -> "DeploymentSettings":
        editors = bound(bindings, INSTALLATION, "editor")
        return cls(
            id=strawberry.ID(row.id),
            name="global",
            agent_helm_values=row.agent_values,
            agent_helm_values_templateable=row.agent_values_templated,
            agent_vsn=__version__,
            read_bindings=bound(bindings, INSTALLATION, "viewer"),
            write_bindings=editors,
            create_bindings=editors,
        )


@strawberry.input
class DeploymentSettingsAttributes:
    """What is left out stays; an empty text removes."""

    agent_helm_values: str | None = None
    agent_helm_values_templateable: bool | None = None

    def change(self) -> SettingsChange:
        return SettingsChange(self.agent_helm_values, self.agent_helm_values_templateable)


@strawberry.type
class DeploymentQuery:
    @strawberry.field(description="What who installs an agent is told.")
    async def deployment_settings(self, info: Info) -> DeploymentSettings | None:
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.deployment.settings(actor)
        return DeploymentSettings.of(row, await verbs.rights.bindings(actor, INSTALLATION))


@strawberry.type
class DeploymentMutation:
    @strawberry.mutation
    async def update_deployment_settings(
        self, info: Info, attributes: DeploymentSettingsAttributes
    ) -> DeploymentSettings | None:
        verbs, actor = info.context.verbs, info.context.actor
        row = await verbs.deployment.change(actor, attributes.change())
        return DeploymentSettings.of(row, await verbs.rights.bindings(actor, INSTALLATION))
