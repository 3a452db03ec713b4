"""Writes refusals to the audit log every second, and deletes expired audit entries every hour."""

from collections.abc import Mapping
from datetime import timedelta
from functools import partial

from controlplane.domain.audit import AuditKind
from controlplane.loops.patient import retry_forever
from controlplane.usecases.notification_routing import NotificationRouting
from controlplane.usecases.records import AuditLogOperations
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

_FLUSH_SECONDS = 1.0
_EXPIRE_SECONDS = 3600.0


class RetentionLoop:
    """Keeps the audit log current; `kept` is the retention period by kind."""

    def __init__(
        self,
        records: AuditLogOperations,
        routing: NotificationRouting,
        kept: Mapping[AuditKind, timedelta],
        clock: Clock,
    ) -> None:
        self._records = records
        self._routing = routing
        self._kept = kept
        self._clock = clock
        self.tasks = Tasks("retention")

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("refusals", self._flush())
        self.tasks.forever("expire", self._expire())

    async def stop(self) -> None:
        """Stops, and writes the remaining refusals."""
        await self.tasks.stop()
        await self._records.flush(ending=True)

    async def _flush(self) -> None:
        while True:
            await self._clock.sleep(_FLUSH_SECONDS)
            await retry_forever("write refusals", self._records.flush, self._clock)

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(_EXPIRE_SECONDS)
            expire = partial(self._records.expire, self._kept)
            await retry_forever("expire audit rows", expire, self._clock)
            await retry_forever("expire notifications", self._routing.forget, self._clock)
