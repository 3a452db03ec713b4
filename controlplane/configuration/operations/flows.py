"""Configuration flow: exports and imports of services."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from controlplane.authorization import Actor, ResourceKind, Verb, require, require_member
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.configuration.model.flow import (
    MAX_NAMES,
    Export,
    Graph,
    Import,
    ImportedValue,
    ResolvedImports,
    ServiceExport,
    ServiceImport,
    affected_services,
    changed_services,
    check_export,
    check_import,
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
from controlplane.configuration.operations.service_graph import ServiceGraph, service_graph
from controlplane.configuration.ports import ServiceExportStore, ServiceImportStore
from controlplane.platform.context import RENDER_SERVICES, SERVICE, ContextOperations
from controlplane.platform.limits import check_count, check_unique
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.operations.lookup import find_managed_service, find_service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Conflict, Invalid


@dataclass(frozen=True, slots=True)
class FlowView:
    """Exports and imports of a service, and the present values of its imports."""

    service: Service
    exports: tuple[Export, ...]
    """Exported values."""
    imports: tuple[Import, ...]
    """Imported values."""
    values: Mapping[str, ImportedValue]
    """Values of the imports by alias."""
    problem: str
    """Reason for imports that cannot be resolved. Empty if there is none."""


@retry_operations
class ConfigurationFlow(ContextOperations):
    """Operations on configuration flow."""

    async def get(self, actor: Actor, service_id: str) -> FlowView:
        """Exports and imports of a service.

        Every user who may see the service also sees the origin of its values.
        """
        async with self._context.read(actor) as tx:
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
        async with self._context.read(actor) as tx:
            service = await find_service(tx, service_id)
            require(actor, Verb.READ, service.target)
            graph = await graph_of(tx, await downstream(tx, [service.id]))
            ids = affected_services(graph, service.id)
            services = await tx[ServiceStore].by_ids(ids) if ids else []
        rows: dict[str, Service] = {service.id: service for service in services}
        return [rows[id] for id in ids if actor.may(Verb.READ, rows[id].target)]

    async def graph(self, actor: Actor) -> ServiceGraph:
        """The services that depend on each other or share values; only those the actor may see."""
        async with self._context.read(actor) as tx:
            return await service_graph(tx, actor)

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
        async with self._context.change(actor, "saveServiceFlow") as tx:
            service = await find_managed_service(tx, service_id)
            tx.authorize(Verb.WRITE, service.target)
            await check_not_frozen(tx, service.cluster_id)
            connected = await upstream(tx, await downstream(tx, [service.id]))
            before = await graph_of(tx, connected)
            if exports is not None:
                await self._set_exports(tx, service, exports)
            if imports is not None:
                await self._set_imports(tx, actor, service, imports)
            graph = await graph_of(tx, connected | await upstream(tx, [service.id]))
            if cycle := import_cycle(graph, service.id):
                raise Conflict(f"the imports form a cycle: {' → '.join(cycle)}")
            tx.publish(SERVICE, service.id)
            for importer in await self._mark_changed_for_render(tx, before, graph, service):
                if importer.repository_id:
                    tx.publish(RENDER_SERVICES, f"{importer.repository_id}/{importer.id}")
            await tx[LedgerStore].append([self._flow_entry(service, actor)])
            tx.audit(service.name, service.id)
        return await self.get(actor, service_id)

    async def _set_exports(
        self, tx: Transaction, service: Service, exports: Sequence[Export]
    ) -> None:
        for export in exports:
            check_export(export)
        uses = await tx[ServiceImportStore].of_sources(service.id)
        before = await tx[ServiceExportStore].of_services(service.id)
        removed = {row.export.name for row in before} - {export.name for export in exports}
        broken_uses = [
            use for use in uses if use.imported.export in removed and use.imported.default is None
        ]
        await require_exports_unused(tx, service, broken_uses)
        await tx[ServiceExportStore].remove_each([row.id for row in before])
        await tx[ServiceExportStore].add_each(
            ServiceExport(self._context.new_id(), service.id, export) for export in exports
        )

    async def _set_imports(
        self, tx: Transaction, actor: Actor, service: Service, imports: Sequence[Import]
    ) -> None:
        before = await tx[ServiceImportStore].of_services(service.id)
        unchanged = [row.imported for row in before]
        for imported in imports:
            check_import(imported)
            # The source of an unchanged one may be deleted by now, or invisible to the actor.
            if imported not in unchanged:
                await _check_source(tx, actor, service, imported)
        await tx[ServiceImportStore].remove_each([row.id for row in before])
        await tx[ServiceImportStore].add_each(
            ServiceImport(self._context.new_id(), service.id, imported) for imported in imports
        )

    async def _mark_changed_for_render(
        self, tx: Transaction, before: Graph, after: Graph, service: Service
    ) -> list[Service]:
        """Marks services with changed values for rendering; returns them in rollout order."""
        ids = changed_services(_resolved(before), resolve_imports(after)) & after.keys()
        ids |= (
            {service.id} if _own_imports(before, service) != _own_imports(after, service) else set()
        )
        rows = await tx[ServiceStore].by_ids(ids) if ids else []
        for row in rows:
            await tx[ServiceStore].mark_for_render(row.id)
        by_id: dict[str, Service] = {row.id: row for row in rows}
        return [by_id[id] for group in rollout_order(after, by_id) for id in group]

    def _flow_entry(self, service: Service, actor: Actor) -> LedgerEntry:
        user, now = actor.shown_name, self._context.clock.now()
        return LedgerEntry.of(
            service, LedgerStage.CONFIGURED, now, actor=user, message="exports, imports"
        ).without_revision()


async def _check_source(tx: Transaction, actor: Actor, service: Service, imported: Import) -> None:
    """Invalid: the service has no such export. NotFound: it does not exist, or cannot be seen."""
    with reference("imports.sourceId", imported.source_id):
        source = found(await tx[ServiceStore].get(imported.source_id), ResourceKind.SERVICE)
        require(actor, Verb.READ, source.target)
    row = await tx[ServiceExportStore].named(source.id, imported.export)
    if imported.default is not None:
        return
    if row is None:
        raise Invalid(
            f"service {source.name!r} has no export {imported.export}", field="imports.export"
        )
    if not row.export.shared and source.project_id != service.project_id:
        raise Invalid(
            f"service {source.name!r} does not share {imported.export} with other projects",
            field="imports.export",
        )


def _check_names(names: Sequence[str], field: str) -> None:
    check_count(len(names), field, MAX_NAMES)
    check_unique(names, field, "name")


def _resolved(graph: Graph) -> ResolvedImports:
    """The imports before a change; none if they form a cycle, which the change may end."""
    try:
        return resolve_imports(graph)
    except Invalid:
        return ResolvedImports({}, {})


def _own_imports(graph: Graph, service: Service) -> Mapping[str, Import]:
    """The imports that a service itself declares."""
    node = graph.get(service.id)
    return dict(node.imports) if node else {}
