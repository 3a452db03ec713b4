"""Renders a minute by project."""

from core.runtime.token_bucket import RatePolicy, TokenBucket

_MINUTE_S = 60.0
_MAX_PROJECTS = 10_000


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
