"""How fast the reports of each cluster are taken: one that tells of too much waits by itself.

Each cluster has credit, of which its reports take as much as they weigh: most of them one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, takewhile

from fleet.identity import ClusterId
from fleet.runtime.clock import Clock
from fleet.wire.v1 import agent_pb2 as wire

BURST = 3000
"""Weight at once: more than all but the largest clusters have to tell after a first sync."""

RATE = 50.0
"""Weight a second that is taken of a cluster for ever."""

TURN = 50
"""Weight that one who waits is given together: few transactions cost others less than many."""

_DRIFT = 10
_BYTES = 8 << 10

SLOWED = (
    f"its agent tells of more than {RATE:.0f} things a second: they are taken more slowly, none is "
    "lost; look which objects something else changes all the time"
)


@dataclass(slots=True)
class _Budget:
    left: float
    at: float
    slowed: bool = False


def weight(report: wire.Report) -> int:
    """How much work it is: one, and one more for each 8 KiB.

    A drift weighs as ten: it stays in the ledger for long, and no later report replaces it.
    """
    return (_DRIFT if report.HasField("drift") else 1) + report.ByteSize() // _BYTES


class Paces:
    """A budget of reports for each cluster, which time fills up again; full ones are not kept."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._budgets: dict[ClusterId, _Budget] = {}

    def take(self, cluster_id: ClusterId, weights: Sequence[int]) -> int:
        """How many of the oldest reports may be committed now; they then count.

        None until there is room for a turn or for all of them. One that weighs more than there is
        room for is taken by itself, and owed.
        """
        now = self._clock.monotonic()
        budget = self._budgets.setdefault(cluster_id, _Budget(BURST, now))
        budget.left = min(BURST, budget.left + (now - budget.at) * RATE)
        budget.at = now
        if not weights or budget.left < min(TURN, sum(weights)):
            return 0
        fitting = takewhile(lambda weight: weight <= budget.left, accumulate(weights))
        taken = max(1, sum(1 for _ in fitting))
        budget.left -= sum(weights[:taken])
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
