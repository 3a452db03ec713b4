"""Reports that are committed together: what they tell is read once, written once."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import structlog

from controlplane.domain.ledger import LedgerEntry
from controlplane.domain.reports import InventoryReport, Report
from controlplane.domain.services import Component, Service
from controlplane.ports import ANY, Transaction
from fleet.identity import ClusterId

log = structlog.get_logger(__name__)

_TOO_MUCH = (
    "its agent tells of more services or components than are shown of one cluster: the rest is "
    "missing here, and runs all the same"
)


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much one cluster may have shown here: services that it defines, and components."""

    mirrored: int = 1000
    components: int = 200_000


class ReportBatch:
    """What reports of a cluster's agent come to, until `write_all` writes it."""

    def __init__(self, tx: Transaction, cluster_id: str, bounds: Bounds) -> None:
        self.refused = self.shrunk = False
        self._bounds = bounds
        self._mirrored: int | None = None
        self._components: int | None = None
        self.tx = tx
        self.cluster_id = cluster_id
        self.services: dict[str, Service] = {}
        self.ledger: list[LedgerEntry] = []
        self.changed: set[tuple[str, str]] = set()
        self._columns: dict[str, dict[str, Any]] = {}
        self._present: dict[str, Component] = {}
        self._gone: set[str] = set()
        self._held: dict[str, set[str]] = {}

    @classmethod
    async def of_each(
        cls, tx: Transaction, told: Mapping[ClusterId, Sequence[Report]], bounds: Bounds
    ) -> dict[ClusterId, Self]:
        """A batch for each cluster; it knows the services of which the cluster's reports speak."""
        batches = {id: cls(tx, id, bounds) for id in told}
        bodies = [(id, report.body) for id, reports in told.items() for report in reports]
        if named := {getattr(body, "service_id", None) for _, body in bodies} - {None}:
            for service in await tx.services.select(id=named, cluster_id=set(told), deleted_at=ANY):
                batches[service.cluster_id].services[service.id] = service
        inventories = [(id, body) for id, body in bodies if isinstance(body, InventoryReport)]
        whole = {body.service_id for _, body in inventories if body.complete}
        held = await tx.components.ids_of(whole)
        counted = await tx.components.count_each({id for id, _ in inventories})
        for id, body in inventories:
            batches[id]._components = counted.get(id, 0)
            if body.service_id in batches[id].services:
                batches[id]._held[body.service_id] = held.get(body.service_id, set())
        return batches

    async def look(self, service_id: str) -> None:
        """A service was written past the batch."""
        found = await self.tx.services.find(id=service_id, cluster_id=self.cluster_id)
        if found is not None:
            self.services[service_id] = found

    async def locked(self, service_id: str) -> Service | None:
        """A service as it is now, with what has gathered for it; it is locked until the end.

        What a batch has looked at first may be older than what others have committed since.
        """
        if service_id not in self.services:
            return None
        found = await self.tx.services.find(id=service_id, cluster_id=self.cluster_id)
        return replace(found, **self._columns.get(service_id, {})) if found else None

    def change(self, service: Service, **columns: Any) -> None:
        """What is to be written of a service; later reports of the batch see it."""
        self.services[service.id] = replace(service, **columns)
        self._columns.setdefault(service.id, {}).update(columns)

    def forget(self, service: Service) -> None:
        """A service is gone, and its inventory with it."""
        self.shrunk = True
        self._mirrored = self._components = None
        self.services.pop(service.id, None)
        self._columns.pop(service.id, None)
        self._held.pop(service.id, None)
        present = self._present.items()
        self._present = {
            id: component for id, component in present if component.service_id != service.id
        }

    async def may_mirror(self) -> bool:
        """Whether one more service of the cluster's own is shown; it then counts."""
        if self._mirrored is None:
            found = await self.tx.services.select(cluster_id=self.cluster_id, mirrored=True)
            self._mirrored = len(found)
        if self._mirrored >= self._bounds.mirrored:
            self._refuse("services")
            return False
        self._mirrored += 1
        return True

    async def take_inventory(
        self, service_id: str, present: list[Component], gone: Collection[str], *, complete: bool
    ) -> None:
        """Components that are there, as far as there is room, and the ids of those that are not.

        `complete`: what else the service has, by earlier reports too, has gone as well.
        """
        held = self._held.setdefault(service_id, set())
        if complete:
            gone = held - {component.id for component in present}
        self.shrunk = self.shrunk or bool(gone)
        self._gone.update(gone)
        held.difference_update(gone)
        for id in gone:
            self._present.pop(id, None)
        for component in await self._fitting(present):
            self._gone.discard(component.id)
            self._present[component.id] = component
            held.add(component.id)

    async def _fitting(self, present: list[Component]) -> list[Component]:
        """Those for which there is room; those that are known have theirs."""
        most, more = self._bounds.components, len(present)
        if self._components is None or self._components + more > most:
            await _write_inventories(self.tx, [self])
            counted = await self.tx.components.count_each({self.cluster_id})
            self._components = counted.get(self.cluster_id, 0)
        if self._components + more > most:
            known = await self.tx.components.select(id={component.id for component in present})
            ids = {component.id for component in known}
            self._refuse("components")
            return [component for component in present if component.id in ids]
        self._components += more
        return present

    def _refuse(self, what: str) -> None:
        if not self.refused:
            log.warning("a cluster tells of too much", cluster=self.cluster_id, what=what)
        self.refused = True

    def alarm(self, before: str) -> str:
        """What is wrong with the cluster's agents after this batch."""
        if self.refused:
            return _TOO_MUCH
        return "" if self.shrunk and before == _TOO_MUCH else before

    def take_columns(self) -> dict[str, dict[str, Any]]:
        """What is to be written of services, by their ids."""
        columns, self._columns = self._columns, {}
        return columns

    def take_gathered(self) -> tuple[set[str], list[Component]]:
        """Ids of components that have gone, and components that are there; each once."""
        gone, present = self._gone, list(self._present.values())
        self._gone, self._present = set(), {}
        return gone, present


async def write_all(
    tx: Transaction, batches: Collection[ReportBatch], offered: Iterable[LedgerEntry]
) -> None:
    """Write what has gathered, table by table; `offered` before what came of it.

    Services are locked before their deployments, as all who write both do it.
    """
    await _write_inventories(tx, batches)
    columns: dict[str, dict[str, Any]] = {}
    for batch in batches:
        columns |= batch.take_columns()
    await tx.services.change_each(columns)
    await tx.ledger.append([*offered, *(row for batch in batches for row in batch.ledger)])


async def _write_inventories(tx: Transaction, batches: Iterable[ReportBatch]) -> None:
    gathered = [batch.take_gathered() for batch in batches]
    await tx.components.forget({id for gone, _ in gathered for id in gone})
    await tx.components.upsert([component for _, present in gathered for component in present])
