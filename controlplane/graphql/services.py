"""Clusters and services in responses: related resources are fetched for all rows at once."""

from collections.abc import Collection, Sequence

from controlplane.domain.clusters import Cluster as ClusterRow
from controlplane.domain.services import Component, Service
from controlplane.graphql.access import ProjectType
from controlplane.graphql.clusters import ClusterType
from controlplane.graphql.context import Context, Info
from controlplane.graphql.contexts import contexts_of
from controlplane.graphql.repositories import GitRepository
from controlplane.graphql.selections import selected_fields
from controlplane.graphql.types import ServiceDeployment
from controlplane.usecases.rights import BindingView

_BINDINGS = frozenset({"readBindings", "writeBindings"})
_OF_CLUSTERS = frozenset({"project"})
_RELATED = ("cluster", "repository", "revision", "components", "contexts", "sources")


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
    verbs, actor = context.verbs, context.actor
    projects: dict[str, ProjectType] = {}
    if "project" in wanted:
        found = await verbs.projects.of(actor, [row.project_id for row in rows if row.project_id])
        projects = {id: ProjectType.of(project) for id, project in found.items()}
    bindings: list[BindingView] = []
    if wanted & _BINDINGS:
        scope = next(iter(rows)).target.scope if len(rows) == 1 else None
        bindings = await verbs.rights.bindings(actor, scope)
    return {
        row.id: ClusterType.of(row, None, projects.get(row.project_id or ""), bindings)
        for row in rows
    }


async def service_type(info: Info, row: Service) -> ServiceDeployment:
    """Converts a service with the selected related resources."""
    return (await service_types(info, [row]))[0]


async def service_types(info: Info, rows: Sequence[Service]) -> list[ServiceDeployment]:
    """Converts services with the selected related resources: one lookup per kind."""
    return await with_related(info.context, rows, selected_fields(info))


async def with_related(
    context: Context, rows: Sequence[Service], wanted: frozenset[str] = frozenset(_RELATED)
) -> list[ServiceDeployment]:
    """Converts services with the named related resources."""
    services = context.verbs.services
    found = await services.related(context.actor, rows, wanted)
    contexts = await contexts_of(context, rows) if "contexts" in wanted else {}
    # Many services share a cluster or a repository, so each is converted once.
    clusters = await cluster_types(context, found.clusters.values(), wanted & _OF_CLUSTERS)
    repositories = {
        id: GitRepository.of(repository) for id, repository in found.repositories.items()
    }
    components: dict[str, list[Component]] = {}
    for component in found.components:
        components.setdefault(component.service_id, []).append(component)
    return [
        ServiceDeployment.of(
            row,
            cluster=clusters.get(row.cluster_id),
            repository=repositories.get(row.repository_id or ""),
            revision=found.revisions.get(row.revision_id or ""),
            components=components.get(row.id),
            contexts=contexts.get(row.id),
            sources=found.sources.get(row.id, ()),
        )
        for row in rows
    ]
