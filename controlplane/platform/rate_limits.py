"""Limits of requests per caller, and of renders per project."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from core.runtime.token_bucket import RatePolicy, TokenBucket

WINDOW_S = 10.0
"""A `RequestLimiter` has policies that refill in this time."""
ADDRESS = "address "
"""Name prefix of unauthenticated callers, who are counted by address."""
MAX_TRACKED_CALLERS = 20_000
"""Above this number, unauthenticated callers share one counter, because addresses are plentiful."""
_OTHERS = "others"
_MINUTE_S = 60.0
_MAX_PROJECTS = 10_000


@dataclass(slots=True)
class RequestLimiter:
    """Request counts of callers in the current window; without a policy, there is no limit.

    All replicas share windows of the wall clock, each with a burst of the policy. They add their
    counts of a window, which they could not do with token buckets. `own` counts the requests
    accepted here; `record_other_replicas` adds those of others.
    """

    policy: RatePolicy | None
    window: int = -1
    own: dict[str, int] = field(default_factory=dict)
    _other_counts: dict[str, int] = field(default_factory=dict)

    def take(self, caller: str, now: float) -> float:
        """Counts a request at `now` (epoch seconds). Returns the seconds to wait, or 0.0 if it is
        accepted.
        """
        if self.policy is None:
            return 0.0
        self._start_window(now)
        name = self._counter_name(caller)
        count = self.own.get(name, 0)
        if count + self._other_counts.get(name, 0) >= self.policy.burst:
            return (self.window + 1) * WINDOW_S - now
        self.own[name] = count + 1
        return 0.0

    def counts_to_share(self, now: float) -> dict[str, int]:
        """Returns the counts to share with other replicas: callers above 5 % of their limit."""
        self._start_window(now)
        shared_from = self.policy.burst / 20 if self.policy else math.inf
        return {name: count for name, count in self.own.items() if count >= shared_from}

    def record_other_replicas(self, window: int, counts: Mapping[str, int]) -> None:
        """Records the counts of other replicas within a window."""
        if window == self.window:
            self._other_counts = dict(counts)

    def _counter_name(self, caller: str) -> str:
        """Returns the name under which a caller is counted."""
        is_new = caller not in self.own
        is_one_of_many = (
            is_new and caller.startswith(ADDRESS) and len(self.own) >= MAX_TRACKED_CALLERS
        )
        return _OTHERS if is_one_of_many else caller

    def _start_window(self, now: float) -> None:
        window = int(now // WINDOW_S)
        if window != self.window:
            self.window = window
            self.own, self._other_counts = {}, {}


class RenderRates:
    """The renders that each project may still do in this process."""

    def __init__(self) -> None:
        self._buckets: dict[str, tuple[int, TokenBucket]] = {}

    def take(self, project_id: str, per_minute: int, count: int, now: float) -> float:
        """Takes renders, if one is left. Returns the seconds to wait; 0.0: taken.

        More than are left are taken in advance, so that a large stage of a pipeline ever begins.
        """
        entry = self._buckets.get(project_id)
        if entry is None or entry[0] != per_minute:
            if len(self._buckets) >= _MAX_PROJECTS:
                self._buckets.clear()
            bucket = TokenBucket(RatePolicy.per(_MINUTE_S, per_minute), now)
            entry = self._buckets[project_id] = (per_minute, bucket)
        if wait := entry[1].wait_time(now):
            return wait
        entry[1].reserve(now, count)
        return 0.0
