"""Ownership of agent links, and the rules of a takeover."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from core.errors import LimitExceeded
from core.identity import ClusterId

MAX_TAKEOVERS = 3
SWAPS_WITHIN = timedelta(minutes=1)
REFUSED_FOR = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Tunnel:
    """Holder of the link to an agent. `id` is the cluster's; the highest epoch owns the link.

    `instance` (hex) names the agent's process, `peer` its address. Without a `replica_id` nobody
    holds the link. `swaps` lists recent takeovers by another agent.
    """

    id: ClusterId
    since: datetime
    epoch: int = 0
    replica_id: str | None = None
    instance: str = ""
    peer: str = ""
    swaps: tuple[datetime, ...] = ()

    def claimed(self, replica_id: str, instance: str, peer: str, now: datetime) -> "Tunnel":
        """Returns the tunnel after a claim; the same agent may reconnect, another one may take
        over.

        Raises LimitExceeded, naming both agents, if two agents took the link from each other too
        often.
        """
        is_swap = self.replica_id is not None and self.instance != instance
        if is_swap and self._has_conflict(now):
            raise LimitExceeded(
                f"two agents use this cluster's deploy token and replace each other: {self.peer} "
                f"and {peer}; remove one of them",
                retry_after=REFUSED_FOR.total_seconds(),
            )
        swaps = (*self.swaps, now)[-MAX_TAKEOVERS:] if is_swap else self.swaps
        return replace(
            self,
            epoch=self.epoch + 1,
            replica_id=replica_id,
            instance=instance,
            peer=peer,
            since=now,
            swaps=swaps,
        )

    def _has_conflict(self, now: datetime) -> bool:
        if len(self.swaps) < MAX_TAKEOVERS:
            return False
        first, last = self.swaps[0], self.swaps[-1]
        return last - first < SWAPS_WITHIN and now - last < REFUSED_FOR
