"""What agents are to be told: for those that are looked at at the same time it is read at once."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from controlplane.domain.commands import Command, CommandState
from controlplane.domain.services import Service
from controlplane.ports import ANY, Store
from fleet.identity import ClusterId
from fleet.runtime.batches import Batches

Row = TypeVar("Row", Service, Command)
_A_CLUSTER_WEIGHS = 10


@dataclass(frozen=True, slots=True)
class Asked:
    """A cluster, and some of its services; None: all of them."""

    cluster_id: ClusterId
    services: Collection[str] | None = None

    @property
    def weight(self) -> int:
        """About how much there is to read."""
        return _A_CLUSTER_WEIGHS if self.services is None else 1 + len(self.services)


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a cluster should hold or let go of, and what is to be asked of its agent, oldest
    first."""

    services: Sequence[Service] = ()
    commands: Sequence[Command] = ()


class Wants:
    """Reads what agents are to be told."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._batches = Batches(self.read, weight=lambda query: query.weight)

    async def of(self, cluster_id: ClusterId, services: Collection[str] | None = None) -> Wanted:
        """What a cluster's agent is to be told of some services, or of all. Unavailable."""
        return await self._batches.ask(Asked(cluster_id, services))

    async def read(self, asked: Sequence[Asked]) -> list[Wanted]:
        """The same for several."""
        whole = {query.cluster_id for query in asked if query.services is None}
        named = {
            id for query in asked if query.cluster_id not in whole for id in query.services or ()
        }
        async with self._store.read() as tx:
            found = await tx.services.select(cluster_id=whole, deleted_at=ANY) if whole else []
            if named:
                found += await tx.services.select(id=named, deleted_at=ANY)
            clusters = {query.cluster_id for query in asked}
            commands = await tx.commands.select(cluster_id=clusters, state=CommandState.WAITING)
        services = _by_cluster(
            service for service in found if service.sequence > 0 and not service.mirrored
        )
        waiting = _by_cluster(commands)
        return [
            Wanted(
                [row for row in services.get(query.cluster_id, []) if _is_asked(query, row)],
                waiting.get(query.cluster_id, []),
            )
            for query in asked
        ]


def _is_asked(asked: Asked, service: Service) -> bool:
    return asked.services is None or service.id in asked.services


def _by_cluster(rows: Iterable[Row]) -> dict[ClusterId, list[Row]]:
    found: dict[ClusterId, list[Row]] = {}
    for row in rows:
        found.setdefault(row.cluster_id, []).append(row)
    return found
