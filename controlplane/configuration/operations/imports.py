"""The graph of exports and imports, and the resolved imports of services."""

from collections.abc import Collection, Mapping, Sequence
from typing import TypeVar

from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.model.flow import (
    MAX_NODES,
    FlowNode,
    Graph,
    ResolvedImports,
    ServiceExport,
    ServiceImport,
    resolve_imports,
)
from controlplane.configuration.ports import ServiceExportStore, ServiceImportStore
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, LimitExceeded, TowlineError
from core.json_object import JsonObject

R = TypeVar("R", ServiceExport, ServiceImport)


async def upstream(tx: Transaction, ids: Collection[str]) -> set[str]:
    """Ids of these services and of all services they import from, directly or indirectly."""
    reached, frontier = set[str](), set(ids)
    while frontier:
        reached |= frontier
        _check_size(reached)
        rows = await tx[ServiceImportStore].of_services(frontier)
        frontier = {row.imported.source_id for row in rows} - reached
    return reached


async def downstream(tx: Transaction, ids: Collection[str]) -> set[str]:
    """Ids of these services and of all services that import from them, directly or indirectly."""
    reached, frontier = set[str](), set(ids)
    while frontier:
        reached |= frontier
        _check_size(reached)
        rows = await tx[ServiceImportStore].of_sources(frontier)
        frontier = {row.service_id for row in rows} - reached
    return reached


async def graph_of(tx: Transaction, ids: Collection[str]) -> Graph:
    """The part of the graph with these services; deleted services are left out."""
    services = await tx[ServiceStore].by_ids(ids) if ids else []
    cluster_ids = {service.cluster_id for service in services}
    handles = (
        {c.id: c.handle for c in await tx[ClusterStore].by_ids(cluster_ids)} if cluster_ids else {}
    )
    exports = _by_service(await tx[ServiceExportStore].of_services(ids) if ids else [])
    imports = _by_service(await tx[ServiceImportStore].of_services(ids) if ids else [])
    return {
        service.id: _flow_node(
            service,
            handles[service.cluster_id],
            exports.get(service.id, ()),
            imports.get(service.id, ()),
        )
        for service in services
    }


async def imports_of(tx: Transaction, service_ids: Collection[str]) -> ResolvedImports:
    """The resolved imports of services."""
    rows = await tx[ServiceImportStore].of_services(service_ids) if service_ids else []
    importers = {row.service_id for row in rows}
    if not importers:
        return ResolvedImports({}, {})
    try:
        return resolve_imports(await graph_of(tx, await upstream(tx, importers)))
    except TowlineError as error:
        # Two concurrent saves may have formed a cycle.
        return ResolvedImports({}, dict.fromkeys(importers, error.message))


async def flow_values(
    tx: Transaction, service_ids: Collection[str]
) -> tuple[dict[str, JsonObject], Mapping[str, str]]:
    """Values of `imports` in the services' templates, and the problems of services that have
    none."""
    resolved = await imports_of(tx, service_ids)
    ids = set(service_ids)
    values = {
        id: {alias: imported.value for alias, imported in imports.items()}
        for id, imports in resolved.imports.items()
        if id in ids
    }
    return values, {id: problem for id, problem in resolved.problems.items() if id in ids}


async def check_not_imported(tx: Transaction, service: Service) -> None:
    """Conflict: other services import from the service, without a default."""
    rows = await tx[ServiceImportStore].of_sources(service.id)
    await require_exports_unused(tx, service, [row for row in rows if row.imported.default is None])


async def require_exports_unused(
    tx: Transaction, service: Service, uses: Sequence[ServiceImport]
) -> None:
    """Conflict: such imports exist; the message names their services."""
    if not uses:
        return
    users = await tx[ServiceStore].by_ids({use.service_id for use in uses})
    names = ", ".join(sorted(service.name for service in users)[:5])
    exports = ", ".join(sorted({use.imported.export for use in uses})[:5])
    raise Conflict(f"{names} import {exports} from service {service.name!r}: change them first")


async def delete_flow(tx: Transaction, service_id: str) -> None:
    """Deletes the exports and imports of a deleted service."""
    for store in (tx[ServiceExportStore], tx[ServiceImportStore]):
        rows = await store.of_services(service_id)
        await store.remove_each([row.id for row in rows])


def _by_service(rows: Sequence[R]) -> dict[str, list[R]]:
    grouped: dict[str, list[R]] = {}
    for row in rows:
        grouped.setdefault(row.service_id, []).append(row)
    return grouped


def _flow_node(
    service: Service,
    handle: str,
    exports: Sequence[ServiceExport],
    imports: Sequence[ServiceImport],
) -> FlowNode:
    return FlowNode(
        service.id,
        f"{handle}/{service.name}",
        service.project_id,
        {row.export.name: row.export for row in exports},
        {row.imported.alias: row.imported for row in imports},
        {
            "service.name": service.name,
            "service.namespace": service.namespace,
            "cluster.handle": handle,
        },
    )


def _check_size(ids: Collection[str]) -> None:
    if len(ids) > MAX_NODES:
        raise LimitExceeded(f"more than {MAX_NODES:,} services are connected by imports")
