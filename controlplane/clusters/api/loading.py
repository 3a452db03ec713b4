"""Loads what a query selects of clusters, for all rows at once."""

from collections.abc import Collection

from controlplane.access.api.types import ProjectType
from controlplane.access.operations.projects import Projects
from controlplane.access.operations.roles import AccessControl, BindingView
from controlplane.clusters.api.clusters import ClusterType
from controlplane.clusters.model.cluster import Cluster as ClusterRow
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.selections import selected_fields

_BINDINGS = frozenset({"readBindings", "writeBindings"})


RELATED_TO_CLUSTERS = frozenset({"project"})


async def cluster_type(info: Info, row: ClusterRow, deploy_token: str | None = None) -> ClusterType:
    """Converts a cluster with the selected related resources."""
    wanted = selected_fields(info)
    made = await cluster_types(info.context, [row], wanted)
    made[row.id].deploy_token = deploy_token
    return made[row.id]


async def cluster_types(
    context: Context, rows: Collection[ClusterRow], wanted: frozenset[str]
) -> dict[str, ClusterType]:
    """Converts clusters with the named related resources, by ID."""
    actor = context.actor
    projects: dict[str, ProjectType] = {}
    if "project" in wanted:
        found = await context[Projects].of(
            actor, [row.project_id for row in rows if row.project_id]
        )
        projects = {id: ProjectType.of(project) for id, project in found.items()}
    bindings: list[BindingView] = []
    if wanted & _BINDINGS:
        scope = next(iter(rows)).target.scope if len(rows) == 1 else None
        bindings = await context[AccessControl].bindings(actor, scope)
    return {
        row.id: ClusterType.of(row, None, projects.get(row.project_id or ""), bindings)
        for row in rows
    }
