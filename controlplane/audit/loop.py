"""Writes refusals to the audit log every second, and deletes expired audit entries every hour."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import timedelta

from controlplane.audit.model.chains import AuditKind
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.platform.loops.background import BackgroundLoop
from core.runtime.clock import Clock

_FLUSH_SECONDS = 1.0
_EXPIRE_SECONDS = 3600.0


class RetentionLoop(BackgroundLoop):
    """Keeps the audit log current; `retention` is the period by kind."""

    def __init__(
        self,
        audit_log: AuditLogOperations,
        forget_notifications: Callable[[], Awaitable[None]],
        retention: Mapping[AuditKind, timedelta],
        clock: Clock,
    ) -> None:
        super().__init__("retention", clock)
        self._audit_log = audit_log
        self._forget_notifications = forget_notifications
        self._retention = retention

    async def start(self) -> None:
        self._every(_FLUSH_SECONDS, "refusals", self._audit_log.flush, delay=_FLUSH_SECONDS)
        self._every(_EXPIRE_SECONDS, "expire", self._delete_expired, delay=_EXPIRE_SECONDS)

    async def stop(self) -> None:
        """Stops, and writes the remaining refusals."""
        await super().stop()
        await self._audit_log.flush(ending=True)

    async def _delete_expired(self) -> None:
        await self._audit_log.expire(self._retention)
        await self._forget_notifications()
