"""Batch of agent reports that are committed together: one read and one write per table."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Self

import structlog

from controlplane.platform.parts import Columns
from controlplane.platform.ports import Transaction
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.model.service import Component, Service
from controlplane.services.ports import ComponentStore, LedgerStore, ServiceStore
from core.identity import ClusterId, ServiceId, is_local_id, local_id
from core.spec.reports.inventory import InventoryChange
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report, ReportBody

log = structlog.get_logger(__name__)

_LIMIT_ALARM = (
    "its agent reports more services or components than the limit per cluster: the rest is not "
    "shown here, but still runs"
)


@dataclass(frozen=True, slots=True)
class ReportLimits:
    """Limits of one cluster: services that it defines itself, and components."""

    mirrored: int = 1000
    components: int = 200_000


def mirrored_id(cluster_id: str, reported_id: str) -> ServiceId:
    """The stored id of a mirrored service: no report of another cluster gives the same."""
    return ServiceId(local_id(cluster_id, reported_id))


def with_stored_id(cluster_id: str, body: ReportBody | None) -> ReportBody | None:
    """The report with the stored id of a mirrored service, instead of the agent's own."""
    reported_id = getattr(body, "service_id", "")
    if body is None or isinstance(body, LocalServiceReport) or not is_local_id(reported_id):
        return body
    return replace(body, **{"service_id": mirrored_id(cluster_id, reported_id)})


class ReportBatch:
    """Collects the writes of a cluster's reports for `write_all`."""

    def __init__(self, tx: Transaction, cluster_id: str, limits: ReportLimits) -> None:
        self.over_limit = self.shrunk = False
        self._limits = limits
        self._mirrored: int | None = None
        self._components: int | None = None
        self.tx = tx
        self.cluster_id = cluster_id
        self.services: dict[str, Service] = {}
        self.ledger: list[LedgerEntry] = []
        self.changed: set[tuple[str, str]] = set()
        self._columns: dict[str, Columns] = {}
        self._present: dict[str, Component] = {}
        self._deleted_ids: set[str] = set()
        self._stored_ids: dict[str, set[str]] = {}

    @classmethod
    async def for_clusters(
        cls,
        tx: Transaction,
        new_reports: Mapping[ClusterId, Sequence[Report]],
        limits: ReportLimits,
    ) -> dict[ClusterId, Self]:
        """Creates a batch for each cluster, with the services that its reports name."""
        batches = {id: cls(tx, id, limits) for id in new_reports}
        bodies = [(id, report.body) for id, reports in new_reports.items() for report in reports]
        if service_ids := {id for _, body in bodies if (id := getattr(body, "service_id", None))}:
            for service in await tx[ServiceStore].reported(service_ids, new_reports.keys()):
                batches[service.cluster_id].services[service.id] = service
        inventories = [(id, body) for id, body in bodies if isinstance(body, InventoryChange)]
        complete_ids = {body.service_id for _, body in inventories if body.complete}
        stored = await tx[ComponentStore].component_ids(complete_ids)
        counts = await tx[ComponentStore].count_by_cluster({id for id, _ in inventories})
        for id, body in inventories:
            batches[id]._components = counts.get(id, 0)
            if body.service_id in batches[id].services:
                batches[id]._stored_ids[body.service_id] = stored.get(body.service_id, set())
        return batches

    async def reload_service(self, service_id: str) -> None:
        """Reads a service that was written outside of the batch."""
        service = await self.tx[ServiceStore].in_cluster(service_id, self.cluster_id)
        if service is not None:
            self.services[service_id] = service

    async def lock_service(self, service_id: str) -> Service | None:
        """The present state of a service with the batch's changes, locked until the transaction
        ends.

        The state that the batch read first may be older than other commits.
        """
        if service_id not in self.services:
            return None
        service = await self.tx[ServiceStore].in_cluster(service_id, self.cluster_id)
        return service.changed(**self._columns.get(service_id, {})) if service else None

    def change(self, service: Service, **columns: object) -> None:
        """Collects column changes of a service; later reports of the batch see them."""
        self.services[service.id] = service.changed(**columns)
        self._columns.setdefault(service.id, {}).update(columns)

    def forget(self, service: Service) -> None:
        """Drops a deleted service and its inventory from the batch."""
        self.shrunk = True
        self._mirrored = self._components = None
        self.services.pop(service.id, None)
        self._columns.pop(service.id, None)
        self._stored_ids.pop(service.id, None)
        present = self._present.items()
        self._present = {
            id: component for id, component in present if component.service_id != service.id
        }

    async def reserve_mirrored(self) -> bool:
        """True if the cluster may show one more mirrored service, which then counts."""
        if self._mirrored is None:
            services = await self.tx[ServiceStore].mirrored(self.cluster_id)
            self._mirrored = len(services)
        if self._mirrored >= self._limits.mirrored:
            self._mark_over_limit("services")
            return False
        self._mirrored += 1
        return True

    async def collect_inventory(
        self, service_id: str, present: list[Component], gone: Collection[str], *, complete: bool
    ) -> None:
        """Collects present components, within the limit, and the ids of deleted ones.

        `complete`: all other components of the service were deleted too.
        """
        stored = self._stored_ids.setdefault(service_id, set())
        if complete:
            gone = stored - {component.id for component in present}
        self.shrunk = self.shrunk or bool(gone)
        self._deleted_ids.update(gone)
        stored.difference_update(gone)
        for id in gone:
            self._present.pop(id, None)
        for component in await self._within_limit(present):
            self._deleted_ids.discard(component.id)
            self._present[component.id] = component
            stored.add(component.id)

    async def _within_limit(self, present: list[Component]) -> list[Component]:
        """The components within the limit; known components always fit."""
        limit, count = self._limits.components, len(present)
        if self._components is None or self._components + count > limit:
            await _write_inventories(self.tx, [self])
            counts = await self.tx[ComponentStore].count_by_cluster({self.cluster_id})
            self._components = counts.get(self.cluster_id, 0)
        if self._components + count > limit:
            stored = await self.tx[ComponentStore].by_ids({component.id for component in present})
            ids = {component.id for component in stored}
            self._mark_over_limit("components")
            return [component for component in present if component.id in ids]
        self._components += count
        return present

    def _mark_over_limit(self, noun: str) -> None:
        if not self.over_limit:
            log.warning("cluster exceeds its report limits", cluster=self.cluster_id, what=noun)
        self.over_limit = True

    def alarm(self, before: str) -> str:
        """The alarm of the cluster after this batch."""
        if self.over_limit:
            return _LIMIT_ALARM
        return "" if self.shrunk and before == _LIMIT_ALARM else before

    def drain_columns(self) -> dict[str, Columns]:
        """The collected column changes of services, by id."""
        columns, self._columns = self._columns, {}
        return columns

    def drain_components(self) -> tuple[set[str], list[Component]]:
        """The ids of deleted components, and the present components, each once."""
        gone, present = self._deleted_ids, list(self._present.values())
        self._deleted_ids, self._present = set(), {}
        return gone, present


async def write_all(
    tx: Transaction, batches: Collection[ReportBatch], offered: Iterable[LedgerEntry]
) -> None:
    """Writes the batches table by table; `offered` entries come before their results.

    Locks services before deployments, in the order of all other writers.
    """
    await _write_inventories(tx, batches)
    columns: dict[str, Columns] = {}
    for batch in batches:
        columns |= batch.drain_columns()
    await tx[ServiceStore].change_each(columns)
    await tx[LedgerStore].append([*offered, *(row for batch in batches for row in batch.ledger)])


async def _write_inventories(tx: Transaction, batches: Iterable[ReportBatch]) -> None:
    inventories = [batch.drain_components() for batch in batches]
    await tx[ComponentStore].forget({id for deleted, _ in inventories for id in deleted})
    await tx[ComponentStore].upsert(
        [component for _, present in inventories for component in present]
    )
