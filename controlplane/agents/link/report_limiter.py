"""Rate limit of reports, separately for each cluster.

Each cluster has a budget, from which each report takes its weight; most reports weigh one.
"""

from collections.abc import Iterator, Sequence
from itertools import accumulate, takewhile

from core.identity import ClusterId
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy, TokenBucket
from core.wire.v1 import agent_pb2 as wire

BURST = 3000
"""Burst weight: more than all but the largest clusters report after a first sync."""

RATE = 50.0
"""Sustained weight per second of one cluster."""

TURN = 50
"""Minimum weight granted to a waiting cluster at once: few transactions cost others less than many.
"""

_POLICY = RatePolicy(rate=RATE, burst=BURST)
_DRIFT = 10
_BYTES = 8 << 10

THROTTLED_ALARM = (
    f"its agent sends more than {RATE:.0f} reports per second: they are delayed, none is lost; "
    "check which objects another controller changes all the time"
)


def report_weight(report: wire.Report) -> int:
    """Returns the cost of a report: one, and one more for each 8 KiB.

    A drift report weighs ten: it stays in the ledger for long, and no later report replaces it.
    """
    return (_DRIFT if report.HasField("drift") else 1) + report.ByteSize() // _BYTES


class ReportLimiter:
    """One token bucket for each cluster; full buckets are dropped."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._buckets: dict[ClusterId, TokenBucket] = {}
        self._throttled: set[ClusterId] = set()

    def take(self, cluster_id: ClusterId, weights: Sequence[int]) -> int:
        """Returns the number of oldest reports that may be committed now, and charges them.

        Returns 0 until the budget covers a minimum batch or all reports. A report heavier than the
        whole budget is accepted alone and leaves a debt.
        """
        now = self._clock.monotonic()
        bucket = self._bucket(cluster_id, now)
        available = bucket.available(now)
        if not weights or available < min(TURN, sum(weights)):
            return 0
        fitting = takewhile(lambda weight: weight <= available, accumulate(weights))
        count = max(1, sum(1 for _ in fitting))
        bucket.reserve(now, sum(weights[:count]))
        return count

    def throttle(self, cluster_id: ClusterId) -> bool:
        """Records that a cluster is throttled; returns whether it was not throttled before."""
        self._bucket(cluster_id, self._clock.monotonic())
        is_new = cluster_id not in self._throttled
        self._throttled.add(cluster_id)
        return is_new

    def recovered(self) -> Iterator[ClusterId]:
        """Returns throttled clusters whose budget is full again; each is returned once."""
        now = self._clock.monotonic()
        for cluster_id, bucket in tuple(self._buckets.items()):
            if bucket.is_full(now):
                del self._buckets[cluster_id]
                if cluster_id in self._throttled:
                    self._throttled.discard(cluster_id)
                    yield cluster_id

    def _bucket(self, cluster_id: ClusterId, now: float) -> TokenBucket:
        if (bucket := self._buckets.get(cluster_id)) is None:
            bucket = self._buckets[cluster_id] = TokenBucket(_POLICY, now)
        return bucket
