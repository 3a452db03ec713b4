"""Writes refusals to the audit log every second, and deletes expired audit entries every hour."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta
from functools import partial

from controlplane.audit.model.chains import AuditKind
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.platform.loops.retry import retry_forever
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

_FLUSH_SECONDS = 1.0
_EXPIRE_SECONDS = 3600.0


class RetentionLoop:
    """Keeps the audit log current; `retention` is the period by kind."""

    def __init__(
        self,
        audit_log: AuditLogOperations,
        forget_notifications: Callable[[], Awaitable[None]],
        retention: Mapping[AuditKind, timedelta],
        clock: Clock,
    ) -> None:
        self._audit_log = audit_log
        self._forget_notifications = forget_notifications
        self._retention = retention
        self._clock = clock
        self.tasks = Tasks("retention")

    def start(self) -> None:
        """Starts in the background."""
        self.tasks.forever("refusals", self._flush())
        self.tasks.forever("expire", self._expire())

    async def stop(self) -> None:
        """Stops, and writes the remaining refusals."""
        await self.tasks.stop()
        await self._audit_log.flush(ending=True)

    async def _flush(self) -> None:
        while True:
            await self._clock.sleep(_FLUSH_SECONDS)
            await retry_forever("write refusals", self._audit_log.flush, self._clock)

    async def _expire(self) -> None:
        while True:
            await self._clock.sleep(_EXPIRE_SECONDS)
            expire = partial(self._audit_log.expire, self._retention)
            await retry_forever("expire audit rows", expire, self._clock)
            await retry_forever("expire notifications", self._forget_notifications, self._clock)
