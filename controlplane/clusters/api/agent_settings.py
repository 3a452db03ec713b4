"""Settings of agents in the API, and their form for compatible clients."""

from enum import Enum

import strawberry

from controlplane.access.api.types import PolicyBinding, bindings_of
from controlplane.access.operations.role_bindings import RoleBindings
from controlplane.authorization import DEFAULT_PROJECT, INSTALLATION
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.selectors import ClusterSelectorAttributes
from controlplane.clusters.model.agent_settings import AgentSettings as SettingsRow
from controlplane.clusters.model.agent_settings import AgentSize, EffectiveAgentSettings
from controlplane.clusters.operations.agent_settings import (
    AgentSettingsChange,
    AgentSettingsOperations,
)
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.inputs import values_by_name
from controlplane.platform.graphql.resource_fields import ResourceFields, each
from controlplane.platform.graphql.scalars import Map
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


_COMPATIBLE = {
    "agent_helm_values": "agent_values",
    "agent_helm_values_templateable": "agent_values_templated",
}

strawberry.enum(AgentSize, name="AgentSize")


@output(SettingsRow)
class AgentSettings(Output[SettingsRow]):
    """Version, size and Helm values of the agents of selected clusters. Compatible clients read and
    change those named `global`."""


@draft(AgentSettingsChange)
class AgentSettingsAttributes(Draft[AgentSettingsChange]):
    """Settings of agents. A field that is null or absent stays as it is; a given selector replaces
    all conditions."""

    selector: ClusterSelectorAttributes | None = None


@output(EffectiveAgentSettings, only={"settings"})
class EffectiveSettings(Output[EffectiveAgentSettings]):
    """The settings of the agent of one cluster. Of several that match the cluster, one wins."""

    settings: AgentSettings
    overruled: list[str] = computed(lambda row: [other.name for other in row.others])
    """Names of the other settings that match, in the order of their precedence."""
    conflicts: list[str] = computed(lambda row: row.conflicts)
    """Names of those with the same precedence, which lose by their name. Give one of them another
    priority."""
    chart_values: Map = computed(lambda row: Map(row.settings.spec.chart_values))
    """Helm values that follow from size and image. `agentValues` take precedence over them."""
    upgrade_problem: str | None = computed(lambda row: row.problem or None)
    """Reason for which the agent did not upgrade to the version. Null if there is none."""


@output(
    SettingsRow,
    rename=_COMPATIBLE,
    only={"id", "agent_values", "agent_values_templated"},
    nullable={"agent_helm_values"},
)
class DeploymentSettingsType(Output[SettingsRow]):
    """The settings `global` of agents, as compatible clients read them."""

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


@draft(AgentSettingsChange, rename=_COMPATIBLE, only={"agent_values", "agent_values_templated"})
class DeploymentSettingsAttributes(Draft[AgentSettingsChange]):
    """The settings `global` of agents. A field that is null or absent stays as it is; an empty
    string clears it."""


_SETTINGS = ResourceFields(
    "settings", AgentSettingsOperations, AgentSettings, each(AgentSettings.of)
)


@strawberry.type
class AgentSettingsQuery:
    agent_settings = _SETTINGS.page(AgentSettingsOperations.page)
    """Settings of agents."""

    @strawberry.field
    async def settings_of_new_cluster(
        self,
        info: Info,
        handle: str,
        tags: list[TagAttributes],
        project_id: strawberry.ID | None = None,
    ) -> EffectiveSettings | None:
        """The settings that the agent of a cluster would have. Null if none match.

        Args:
            handle: Handle of the cluster.
            tags: Tags of the cluster.
            project_id: ID of its project. Default: the default project.
        """
        effective = await info.context[AgentSettingsOperations].of_new_cluster(
            info.context.actor, handle, values_by_name(tags), project_id or DEFAULT_PROJECT
        )
        return EffectiveSettings.of_optional(effective)

    @strawberry.field
    async def deployment_settings(self, info: Info) -> DeploymentSettingsType | None:
        """The settings `global` of agents, for compatible clients."""
        context = info.context
        row = await context[AgentSettingsOperations].of_installation(context.actor)
        return await _deployment_settings(context, row)


@strawberry.type
class AgentSettingsMutation:
    create_agent_settings = _SETTINGS.create(
        AgentSettingsOperations.create, AgentSettingsAttributes
    )
    """Creates settings of agents."""
    update_agent_settings = _SETTINGS.update(
        AgentSettingsOperations.update, AgentSettingsAttributes
    )
    """Updates settings of agents. Agents with another version upgrade."""
    delete_agent_settings = _SETTINGS.action(AgentSettingsOperations.delete)
    """Deletes settings of agents. The agents keep their version."""

    @strawberry.mutation
    async def update_deployment_settings(
        self, info: Info, attributes: DeploymentSettingsAttributes
    ) -> DeploymentSettingsType | None:
        """Updates the settings `global` of agents.

        Args:
            attributes: Fields to change.
        """
        context, change = info.context, attributes.change()
        operations = context[AgentSettingsOperations]
        row = await operations.update_of_installation(context.actor, change)
        return await _deployment_settings(context, row)


async def _deployment_settings(context: Context, row: SettingsRow) -> DeploymentSettingsType:
    bindings = await context[RoleBindings].of_resources(context.actor, INSTALLATION)
    editors = bindings_of(bindings, INSTALLATION, "editor")
    return DeploymentSettingsType.of(
        row,
        read_bindings=bindings_of(bindings, INSTALLATION, "viewer"),
        write_bindings=editors,
        create_bindings=editors,
    )
