"""Which replica holds the link to a cluster's agent, and who may take it over."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from fleet.errors import LimitExceeded
from fleet.identity import ClusterId

MOST_SWAPS = 3
SWAPS_WITHIN = timedelta(minutes=1)
REFUSED_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Replica:
    """A process of the control plane; `heartbeat` is when it last said so, by its own clock.

    `address` (host:port) is where other replicas reach it.
    """

    id: str
    address: str
    heartbeat: datetime


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Who holds the link to an agent. `id` is the cluster's; the highest epoch owns.

    `instance` (hex) names the agent's process, `peer` where it came from. Nobody holds it while
    `replica_id` is None. `swaps`: when another agent took it over lately.
    """

    id: ClusterId
    since: datetime
    epoch: int = 0
    replica_id: str | None = None
    instance: str = ""
    peer: str = ""
    swaps: tuple[datetime, ...] = ()

    def claimed(self, replica_id: str, instance: str, peer: str, now: datetime) -> "Tunnel":
        """The same agent may come again, another one may take over.

        LimitExceeded: two agents have taken it from each other too often; it names both.
        """
        is_swap = self.replica_id is not None and self.instance != instance
        if is_swap and self._is_fought_for(now):
            raise LimitExceeded(
                f"two agents use this cluster's deploy token and replace each other: {self.peer} "
                f"and {peer}; stop one of them",
                retry_after=REFUSED_FOR.total_seconds(),
            )
        swaps = (*self.swaps, now)[-MOST_SWAPS:] if is_swap else self.swaps
        return replace(
            self,
            epoch=self.epoch + 1,
            replica_id=replica_id,
            instance=instance,
            peer=peer,
            since=now,
            swaps=swaps,
        )

    def _is_fought_for(self, now: datetime) -> bool:
        if len(self.swaps) < MOST_SWAPS:
            return False
        first, last = self.swaps[0], self.swaps[-1]
        return last - first < SWAPS_WITHIN and now - last < REFUSED_FOR
