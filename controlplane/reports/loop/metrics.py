"""Takes a metrics snapshot every 15 s."""

from collections.abc import Awaitable, Callable

from controlplane.platform.loops.background import BackgroundLoop
from controlplane.reports.model.installation_metrics import MetricsSnapshot
from core.runtime.clock import Clock

SNAPSHOT_SECONDS = 15.0


class MetricsSnapshotLoop(BackgroundLoop):
    """Keeps the newest snapshot; while the store does not answer, its age grows."""

    def __init__(self, take: Callable[[], Awaitable[MetricsSnapshot]], clock: Clock) -> None:
        super().__init__("census", clock)
        self._take = take
        self._taken_at = clock.monotonic()
        self.newest = MetricsSnapshot()

    async def start(self) -> None:
        self._every(SNAPSHOT_SECONDS, "count", self._refresh)

    def age(self) -> float:
        """Seconds since the newest snapshot, or since the start of this process."""
        return self._clock.monotonic() - self._taken_at

    async def _refresh(self) -> None:
        self.newest = await self._take()
        self._taken_at = self._clock.monotonic()
