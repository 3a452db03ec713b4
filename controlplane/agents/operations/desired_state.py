"""Reads the desired state for agents; concurrent reads share one query."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from controlplane.clusters.model.commands import Command
from controlplane.clusters.ports import CommandStore
from controlplane.platform.ports import Store
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import service_fences
from controlplane.services.ports import ServiceStore
from core.identity import ClusterId
from core.runtime.batcher import Batcher
from core.spec.fences import ServiceFence

Row = TypeVar("Row", Service, Command)
_CLUSTER_WEIGHT = 10


@dataclass(frozen=True, slots=True)
class DesiredStateQuery:
    """A cluster, and some of its services; None: all services."""

    cluster_id: ClusterId
    services: Collection[str] | None = None

    def selects(self, service: Service) -> bool:
        return self.services is None or service.id in self.services

    @property
    def weight(self) -> int:
        """Approximate amount of data to read."""
        return _CLUSTER_WEIGHT if self.services is None else 1 + len(self.services)


@dataclass(frozen=True, slots=True)
class DesiredState:
    """Desired state of a cluster's services, and pending commands of its agent, oldest first.

    `fences` are those of the services' projects, by service id.
    """

    services: Sequence[Service] = ()
    commands: Sequence[Command] = ()
    fences: Mapping[str, ServiceFence] = field(default_factory=dict)


class DesiredStateReader:
    """Reads the desired state of clusters."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches = Batcher(self.read, weight=lambda query: query.weight)

    async def of(
        self, cluster_id: ClusterId, services: Collection[str] | None = None
    ) -> DesiredState:
        """Desired state of some or all services of a cluster. Unavailable."""
        return await self._batches.submit(DesiredStateQuery(cluster_id, services))

    async def read(self, queries: Sequence[DesiredStateQuery]) -> list[DesiredState]:
        """Reads the desired state for a batch of clusters in one query."""
        whole_clusters = {query.cluster_id for query in queries if query.services is None}
        service_ids = {
            id
            for query in queries
            if query.cluster_id not in whole_clusters
            for id in query.services or ()
        }
        async with self._store.read() as tx:
            found = (
                await tx[ServiceStore].of_clusters_with_deleted(whole_clusters)
                if whole_clusters
                else []
            )
            if service_ids:
                found += await tx[ServiceStore].by_ids(service_ids, deleted=True)
            clusters = {query.cluster_id for query in queries}
            commands = await tx[CommandStore].waiting(clusters)
            defined = [
                service
                for service in found
                if service.desired.generation > 0 and not service.mirrored
            ]
            fences = await service_fences(tx, defined)
        services = _by_cluster(defined)
        waiting = _by_cluster(commands)
        return [
            DesiredState(
                [row for row in services.get(query.cluster_id, []) if query.selects(row)],
                waiting.get(query.cluster_id, []),
                fences,
            )
            for query in queries
        ]


def _by_cluster(rows: Iterable[Row]) -> dict[ClusterId, list[Row]]:
    grouped: dict[ClusterId, list[Row]] = {}
    for row in rows:
        grouped.setdefault(row.cluster_id, []).append(row)
    return grouped
