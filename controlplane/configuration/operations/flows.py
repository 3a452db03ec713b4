"""Configuration flow: exports and imports of services."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from controlplane.authorization import Actor, Verb, require, require_member
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.configuration.model.flow import (
    MAX_NAMES,
    Export,
    Graph,
    Import,
    ImportedValue,
    ServiceExport,
    ServiceImport,
    affected_services,
    changed_services,
    check_export,
    check_name,
    import_cycle,
    resolve_imports,
    rollout_order,
)
from controlplane.configuration.operations.imports import (
    downstream,
    graph_of,
    imports_of,
    require_exports_unused,
    upstream,
)
from controlplane.configuration.ports import ServiceExportStore, ServiceImportStore
from controlplane.platform.context import RENDER_SERVICES, SERVICE, OperationContext
from controlplane.platform.ports import Transaction
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.operations.services import find_managed_service, find_service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Conflict, Invalid, NotFound


@dataclass(frozen=True, slots=True)
class FlowView:
    """Exports and imports of a service, and the present values of its imports."""

    service: Service
    exports: tuple[Export, ...]
    imports: tuple[Import, ...]
    values: Mapping[str, ImportedValue]
    problem: str


@retry_operations
class ConfigurationFlow:
    """Operations on configuration flow."""

    def __init__(self, deps: OperationContext) -> None:
        self._context = deps

    async def get(self, actor: Actor, service_id: str) -> FlowView:
        """Exports and imports of a service.

        Every user who may see the service also sees the origin of its values.
        """
        require_member(actor)
        async with self._context.store.read() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            graph = await graph_of(tx, [service.id])
            resolved = await imports_of(tx, [service.id])
        node = graph[service.id]
        return FlowView(
            service,
            tuple(node.exports.values()),
            tuple(node.imports.values()),
            resolved.imports.get(service.id, {}),
            resolved.problems.get(service.id, ""),
        )

    async def affected(self, actor: Actor, service_id: str) -> list[Service]:
        """Services that import from a service, directly or indirectly, in rollout order.

        Leaves out services that the actor may not see.
        """
        require_member(actor)
        async with self._context.store.read() as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            graph = await graph_of(tx, await downstream(tx, [service.id]))
            found = affected_services(_without_outside_imports(graph), service.id)
            services = await tx[ServiceStore].select(id=found) if found else []
        rows: dict[str, Service] = {service.id: service for service in services}
        return [rows[id] for id in found if actor.may(Verb.READ, rows[id].target)]

    async def save(
        self,
        actor: Actor,
        service_id: str,
        exports: Sequence[Export] | None,
        imports: Sequence[Import] | None,
    ) -> FlowView:
        """Replaces the exports or imports of a service; None leaves either unchanged.

        Importers whose values change are rendered again once, in the order of their imports.
        Conflict: the imports form a cycle, an export is in use, or the cluster is frozen.
        """
        require_member(actor)
        _check_names([export.name for export in exports or ()], "exports")
        _check_names([imported.alias for imported in imports or ()], "imports")
        async with self._context.store.write() as tx:
            service = await find_managed_service(tx, service_id)
            require(actor, Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            whole = await upstream(tx, await downstream(tx, [service.id]))
            before = await graph_of(tx, whole)
            if exports is not None:
                await self._set_exports(tx, service, exports)
            if imports is not None:
                await self._set_imports(tx, actor, service, imports)
            graph = await graph_of(tx, whole | await upstream(tx, [service.id]))
            if way := import_cycle(graph, service.id):
                raise Conflict(f"the imports form a cycle: {' → '.join(way)}")
            stale = await self._mark(tx, before, graph, service)
            await tx[LedgerStore].append([self._entry(service, actor)])
            await self._context.audit(tx, actor, "saveServiceFlow", service.name, service.id)
        self._wake(service, stale)
        return await self.get(actor, service_id)

    async def _set_exports(
        self, tx: Transaction, service: Service, exports: Sequence[Export]
    ) -> None:
        wanted = {export.name: check_export(export) for export in exports}
        uses = await tx[ServiceImportStore].select(source_id=service.id)
        lost = [use for use in uses if use.export not in wanted and use.default is None]
        held = {
            service_export.name: service_export
            for service_export in await tx[ServiceExportStore].select(service_id=service.id)
        }
        await require_exports_unused(tx, service, [use for use in lost if use.export in held])
        for row in held.values():
            await tx[ServiceExportStore].remove(row.id)
        for export in wanted.values():
            row = ServiceExport(
                self._context.new_id(),
                service.id,
                export.name,
                export.type,
                export.value,
                export.shared,
            )
            await tx[ServiceExportStore].add(row)

    async def _set_imports(
        self, tx: Transaction, actor: Actor, service: Service, imports: Sequence[Import]
    ) -> None:
        for row in await tx[ServiceImportStore].select(service_id=service.id):
            await tx[ServiceImportStore].remove(row.id)
        for imported in imports:
            check_name(imported.alias, "imports.alias")
            await _check_source(tx, actor, service, imported)
            row = ServiceImport(
                self._context.new_id(),
                service.id,
                imported.alias,
                imported.source,
                imported.export,
                imported.default,
            )
            await tx[ServiceImportStore].add(row)

    async def _mark(
        self, tx: Transaction, before: Graph, after: Graph, service: Service
    ) -> list[Service]:
        """Marks services with changed values for rendering; returns them in rollout order."""
        ids = changed_services(resolve_imports(before), resolve_imports(after)) & after.keys()
        ids |= (
            {service.id} if _own_imports(before, service) != _own_imports(after, service) else set()
        )
        rows = await tx[ServiceStore].select(id=ids, templated=True) if ids else []
        for row in rows:
            await tx[ServiceStore].change(row.id, input_digest=None)
        known: dict[str, Service] = {row.id: row for row in rows}
        return [known[id] for group in rollout_order(after, known) for id in group]

    def _wake(self, service: Service, stale: Iterable[Service]) -> None:
        self._context.bus.publish(SERVICE, service.id)
        for user in stale:
            if user.repository_id:
                self._context.bus.publish(RENDER_SERVICES, f"{user.repository_id}/{user.id}")

    def _entry(self, service: Service, actor: Actor) -> LedgerEntry:
        return LedgerEntry(
            service_id=service.id,
            cluster_id=service.cluster_id,
            stage=LedgerStage.CONFIGURED,
            at=self._context.clock.now(),
            sequence=service.desired.generation,
            actor=(actor.email or actor.name)[:320],
            message="exports, imports",
        )


async def _check_source(tx: Transaction, actor: Actor, service: Service, imported: Import) -> None:
    """Invalid: the service has no such export. NotFound: it does not exist, or cannot be seen."""
    source = await tx[ServiceStore].find(id=imported.source)
    if source is None:
        raise NotFound
    require(actor, Verb.READ, source.target)
    export = await tx[ServiceExportStore].find(service_id=source.id, name=imported.export)
    if imported.default is not None:
        return
    if export is None:
        raise Invalid(
            f"service {source.name!r} has no export {imported.export}", field="imports.export"
        )
    if not export.shared and source.project_id != service.project_id:
        raise Invalid(
            f"service {source.name!r} does not share {imported.export} with other projects",
            field="imports.export",
        )


def _check_names(names: Sequence[str], field: str) -> None:
    if len(names) > MAX_NAMES:
        raise Invalid(f"must have at most {MAX_NAMES} entries", field=field)
    if len(set(names)) < len(names):
        raise Invalid("contains a name twice", field=field)


def _own_imports(graph: Graph, service: Service) -> Any:
    """The imports that a service itself declares."""
    node = graph.get(service.id)
    return dict(node.imports) if node else {}


def _without_outside_imports(graph: Graph) -> Graph:
    """A part of the graph without imports from outside of it."""
    return {
        id: replace(node, imports={k: v for k, v in node.imports.items() if v.source in graph})
        for id, node in graph.items()
    }
