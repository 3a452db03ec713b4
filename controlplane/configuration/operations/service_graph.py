"""The services that depend on each other, or share values, as one graph of the fleet."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from controlplane.authorization import Actor, ResourceKind, Verb
from controlplane.configuration.model.flow import ServiceImport
from controlplane.configuration.ports import ServiceImportStore
from controlplane.platform.ports import MAX_PAGE_ROWS, PageQuery, Transaction
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore

MAX_EDGES = 5_000
_MAX_IMPORTS = 20_000


class ServiceEdgeKind(StrEnum):
    """Relation of two services."""

    DEPENDENCY = "DEPENDENCY"
    """The target waits until the source is healthy."""
    IMPORT = "IMPORT"
    """The target imports a value that the source exports."""


@dataclass(frozen=True, slots=True)
class ServiceEdge:
    """A relation of two services."""

    source_id: str
    """ID of the service that the other one needs."""
    target_id: str
    """ID of the service that needs the other one."""
    kind: ServiceEdgeKind
    """Relation of the services."""
    label: str = ""
    """Name of the export; empty for a dependency."""


@dataclass(frozen=True, slots=True)
class ServiceGraph:
    """Services that need others or that others need."""

    services: tuple[Service, ...]
    """Services with an edge, sorted by ID."""
    edges: tuple[ServiceEdge, ...]
    """Edges between these services. Limit: 5,000."""
    complete: bool
    """False if the fleet has more edges than the limit."""


async def service_graph(tx: Transaction, actor: Actor) -> ServiceGraph:
    """The graph of the services that an actor may see."""
    visible = actor.policy.visible(ResourceKind.SERVICE)
    dependent = await tx[ServiceStore].with_dependencies(visible, MAX_EDGES + 1)
    imports = await _all_imports(tx)
    services = await _services_of(tx, dependent, imports)
    readable = {
        id: service for id, service in services.items() if actor.may(Verb.READ, service.target)
    }
    edges = [
        edge
        for edge in (*_dependency_edges(dependent, readable), *_import_edges(imports))
        if edge.source_id in readable and edge.target_id in readable
    ]
    shown = tuple(edges[:MAX_EDGES])
    ids = {id for edge in shown for id in (edge.source_id, edge.target_id)}
    complete = len(edges) <= MAX_EDGES and len(imports) <= _MAX_IMPORTS
    return ServiceGraph(tuple(readable[id] for id in sorted(ids)), shown, complete)


async def _all_imports(tx: Transaction) -> list[ServiceImport]:
    imports: list[ServiceImport] = []
    has_more, after = True, None
    while has_more and len(imports) <= _MAX_IMPORTS:
        page = await tx[ServiceImportStore].page(PageQuery(MAX_PAGE_ROWS, after))
        imports += page.items
        has_more, after = page.more, imports[-1].id if imports else None
    return imports


async def _services_of(
    tx: Transaction, dependent: Sequence[Service], imports: Sequence[ServiceImport]
) -> Mapping[str, Service]:
    ids = {id for row in imports for id in (row.service_id, row.imported.source_id)}
    services = [*dependent, *(await tx[ServiceStore].by_ids(ids) if ids else ())]
    if dependent:
        names = {name for service in dependent for name in service.spec.dependencies}
        clusters = {service.cluster_id for service in dependent}
        services += await tx[ServiceStore].with_names(clusters, names)
    return {service.id: service for service in services}


def _dependency_edges(
    dependent: Collection[Service], services: Mapping[str, Service]
) -> Iterator[ServiceEdge]:
    by_name = {(service.cluster_id, service.name): service.id for service in services.values()}
    for service in dependent:
        for name in service.spec.dependencies:
            if source := by_name.get((service.cluster_id, name)):
                yield ServiceEdge(source, service.id, ServiceEdgeKind.DEPENDENCY)


def _import_edges(imports: Collection[ServiceImport]) -> Iterator[ServiceEdge]:
    for row in imports:
        imported = row.imported
        yield ServiceEdge(
            imported.source_id, row.service_id, ServiceEdgeKind.IMPORT, imported.export
        )
