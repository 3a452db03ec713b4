"""Takes a metrics snapshot every 15 s, and exports traces of completed deployments every 5 s."""

from collections.abc import Awaitable, Callable, Sequence

import structlog

from controlplane.platform.loops.background import BackgroundLoop, every
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import Store
from controlplane.reports.model.installation_metrics import MetricsSnapshot
from controlplane.reports.model.spans import Span, spans_of
from controlplane.reports.ports import DeploymentStore, SpanExporter
from controlplane.services.model.ledger import LedgerPosition
from core.errors import Unavailable
from core.runtime.clock import Clock

log = structlog.get_logger(__name__)

SNAPSHOT_SECONDS = 15.0
_EXPORT_SECONDS = 5.0
MAX_TRIES = 120
"""10 minutes of tries; after that the spans themselves are at fault and would block all others."""
_AT_ONCE = 200


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


class TraceExportLoop(BackgroundLoop):
    """Follows the ledger from its present end; waits while the collector does not answer.

    `delivers` is True if this process exports the traces of a repository, and not another replica.
    Traces that are pending when the process ends are not exported.
    """

    def __init__(
        self, store: Store, sink: SpanExporter, delivers: Callable[[str], bool], clock: Clock
    ) -> None:
        super().__init__("traces", clock)
        self._store = store
        self._sink = sink
        self._delivers = delivers
        self._exported_until = self._safe_until = 0
        self._waiting: LedgerPosition | None = None
        self._rejections = 0

    async def start(self) -> None:
        self.tasks.forever("tell", self._export_periodically())

    async def stop(self) -> None:
        """Stops all tasks, and closes the exporter."""
        await super().stop()
        self._sink.close()

    async def _export_periodically(self) -> None:
        edge = await retry_forever("find the ledger's end", self._ledger_position, self._clock)
        self._exported_until = self._safe_until = edge.last
        await every(_EXPORT_SECONDS, "tell traces", self._export_all, self._clock)

    async def _export_all(self) -> None:
        while await self._export_batch():
            pass

    async def _ledger_position(self) -> LedgerPosition:
        async with self._store.read() as tx:
            return await tx[DeploymentStore].edge()

    async def _export_batch(self) -> bool:
        """Exports a batch; True if there may be more."""
        if self._exported_until == self._safe_until:
            self._extend_range(await self._ledger_position())
        async with self._store.read() as tx:
            last, ended = await tx[DeploymentStore].ended(
                self._exported_until, self._safe_until, _AT_ONCE
            )
        own = [
            deployment
            for deployment in ended
            if self._delivers(deployment.repository_id or deployment.deployment.service_id)
        ]
        if own:
            await self._export([span for deployment in own for span in spans_of(deployment)])
        has_more, self._exported_until = last > self._exported_until, last
        return has_more

    def _extend_range(self, edge: LedgerPosition) -> None:
        """Moves the end of the range to where no running transaction can add a row.

        Rows are numbered when they are written, but visible when they are committed: a row with a
        lower number may appear later.
        """
        pending, self._waiting = self._waiting, None
        if edge.oldest >= edge.newest:
            self._safe_until = edge.last
        elif pending is None or edge.oldest >= pending.newest:
            self._safe_until = pending.last if pending is not None else self._safe_until
            self._waiting = edge
        else:
            self._waiting = pending

    async def _export(self, spans: Sequence[Span]) -> None:
        try:
            await self._sink.export(spans)
        except Unavailable:
            self._rejections += 1
            if self._rejections < MAX_TRIES:
                raise
            log.warning("traces dropped: the collector rejected them", spans=len(spans))
        self._rejections = 0
