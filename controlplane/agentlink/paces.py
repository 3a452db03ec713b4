"""How fast the reports of each cluster are taken: one that tells of too much waits by itself."""

from collections.abc import Iterator
from dataclasses import dataclass

from fleet.identity import ClusterId
from fleet.runtime.clock import Clock

BURST = 3000
"""Reports at once: more than a whole cluster has to tell after a first sync."""

RATE = 50.0
"""Reports a second that are taken of a cluster for ever."""

SLOWED = (
    f"its agent tells of more than {RATE:.0f} things a second: they are taken more slowly, none is "
    "lost; look which objects something else changes all the time"
)


@dataclass(slots=True)
class _Budget:
    left: float
    at: float
    slowed: bool = False


class Paces:
    """A budget of reports for each cluster, which time fills up again; full ones are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budgets: dict[ClusterId, _Budget] = {}

    def take(self, cluster_id: ClusterId, wanted: int) -> int:
        """How many of the wanted reports may be committed now; they then count."""
        now = self._clock.monotonic()
        budget = self._budgets.setdefault(cluster_id, _Budget(BURST, now))
        budget.left = min(BURST, budget.left + (now - budget.at) * RATE)
        budget.at = now
        taken = min(wanted, int(budget.left))
        budget.left -= taken
        return taken

    def slow(self, cluster_id: ClusterId) -> bool:
        """Note that a cluster has to wait; whether that is news."""
        budget = self._budgets.setdefault(cluster_id, _Budget(BURST, self._clock.monotonic()))
        was, budget.slowed = budget.slowed, True
        return not was

    def calmed(self) -> Iterator[ClusterId]:
        """Clusters that had to wait and whose budget is full again; each is told once."""
        now = self._clock.monotonic()
        for cluster_id, budget in tuple(self._budgets.items()):
            if budget.left + (now - budget.at) * RATE >= BURST:
                del self._budgets[cluster_id]
                if budget.slowed:
                    yield cluster_id
