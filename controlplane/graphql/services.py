"""Making services for answers: what a query selects is fetched for all rows at once."""

from collections.abc import Sequence
from typing import Any

from strawberry.types.nodes import SelectedField

from controlplane.domain.services import Component, Service
from controlplane.graphql.context import Context, Info
from controlplane.graphql.types import Cluster, GitRepository, ServiceDeployment

_RELATED = ("cluster", "repository", "revision", "components")


async def service_type(info: Info, row: Service) -> ServiceDeployment:
    """One service with what the query selects of it."""
    return (await service_types(info, [row]))[0]


async def service_types(info: Info, rows: Sequence[Service]) -> list[ServiceDeployment]:
    """Services with what the query selects of them, one lookup for each kind of thing."""
    wanted = _selected(info)
    return await related(info.context, rows, wanted)


async def related(
    context: Context, rows: Sequence[Service], wanted: frozenset[str] = frozenset(_RELATED)
) -> list[ServiceDeployment]:
    """Services with the named related things."""
    services = context.verbs.services
    found = await services.related(context.actor, rows, wanted)
    # Many services share a cluster or a repository: each is made for the answer once.
    clusters = {id: Cluster.of(one) for id, one in found.clusters.items()}
    repositories = {id: GitRepository.of(one) for id, one in found.repositories.items()}
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
        )
        for row in rows
    ]


def _selected(info: Info) -> frozenset[str]:
    """Names of all related things that the query selects anywhere below this field."""
    names: set[str] = set()
    waiting: list[Any] = list(info.selected_fields)
    while waiting:
        node = waiting.pop()
        if isinstance(node, SelectedField):
            names.add(node.name)
        waiting += node.selections
    return frozenset(names & set(_RELATED))
