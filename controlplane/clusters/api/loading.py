"""Loads what a query selects of clusters, for all rows at once."""

from collections.abc import Collection, Mapping

from controlplane.access.api.loading import load_projects, shown_project
from controlplane.access.api.types import bindings_of
from controlplane.access.operations.role_bindings import BindingView, RoleBindings
from controlplane.clusters.api.agent_settings import EffectiveSettings
from controlplane.clusters.api.clusters import ClusterFreezeType, ClusterType
from controlplane.clusters.model.agent_settings import EffectiveAgentSettings
from controlplane.clusters.model.cluster import Cluster as ClusterRow
from controlplane.clusters.operations.agent_settings import AgentSettingsOperations
from controlplane.clusters.operations.groups import ClusterGroups
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.selections import selected_fields

_BINDINGS = frozenset({"readBindings", "writeBindings"})


RELATED_TO_CLUSTERS = frozenset({"project", "agentSettings", "freeze"})


async def cluster_type(info: Info, row: ClusterRow, deploy_token: str | None = None) -> ClusterType:
    """Converts a cluster with the selected related resources."""
    converted = (await cluster_types(info.context, [row], selected_fields(info)))[row.id]
    converted.deploy_token = deploy_token
    return converted


async def clusters_in_list(info: Info, rows: Collection[ClusterRow]) -> list[ClusterType]:
    """Converts clusters with the selected related resources, in their order."""
    return list((await cluster_types(info.context, rows, selected_fields(info))).values())


async def cluster_types(
    context: Context, rows: Collection[ClusterRow], selected: frozenset[str]
) -> dict[str, ClusterType]:
    """Converts clusters with the named related resources, by ID."""
    with_project = [row.project_id for row in rows if "project" in selected]
    projects = await load_projects(context, with_project) if with_project else {}
    settings: Mapping[str, EffectiveAgentSettings] = {}
    if "agentSettings" in selected:
        settings = await context[AgentSettingsOperations].of_clusters(context.actor, rows)
    bindings: list[BindingView] = []
    if selected & _BINDINGS:
        scope = next(iter(rows)).target.scope if len(rows) == 1 else None
        bindings = await context[RoleBindings].of_resources(context.actor, scope)
    is_frozen_asked = "freeze" in selected
    freezes = await load_freezes(context, [row.id for row in rows] if is_frozen_asked else ())
    return {
        row.id: ClusterType.of(
            row,
            project=shown_project(row, projects),
            freeze=freezes.get(row.id),
            agent_settings=EffectiveSettings.of_optional(settings.get(row.id)),
            read_bindings=bindings_of(bindings, row.target.scope, "viewer"),
            write_bindings=bindings_of(bindings, row.target.scope, "editor"),
        )
        for row in rows
    }


async def load_freezes(context: Context, clusters: Collection[str]) -> dict[str, ClusterFreezeType]:
    """Loads the freezes of clusters, by ID of the cluster."""
    if not clusters:
        return {}
    freezes = await context[ClusterGroups].freezes(context.actor, clusters)
    return {id: ClusterFreezeType.of(freeze) for id, freeze in freezes.items()}
