"""Health of the API server, checked every few seconds."""

from collections.abc import Callable

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.status import Problem
from syncagent.ports import KubeApi

log = structlog.get_logger(__name__)

_CHECK_EVERY_S = 2.0
_RETRY_AFTER_S = 0.5
# A single failed check is ignored.
_MAX_MISSES = 2


class ApiServerMonitor:
    """Monitors the API server; `problem` is the reason why it cannot be reached, None while it can.
    A server that refuses connections is reported within 3 s, a silent one within 11 s.
    """

    def __init__(self, cluster: KubeApi, clock: Clock, on_change: Callable[[], None]) -> None:
        self.problem: Problem | None = None
        self._cluster = cluster
        self._clock = clock
        self._on_change = on_change
        self._misses = 0

    async def run(self) -> None:
        """Checks the server until cancelled."""
        while True:
            self._record_result(await self._check())
            await self._clock.sleep(_RETRY_AFTER_S if self._misses == 1 else _CHECK_EVERY_S)

    async def _check(self) -> str:
        """Checks once; returns the error message, or empty."""
        try:
            await self._cluster.ping()
        except TowlineError as error:
            return error.message
        return ""

    def _record_result(self, failure: str) -> None:
        self._misses = self._misses + 1 if failure else 0
        if self.problem is None and self._misses >= _MAX_MISSES:
            self.problem = Problem(failure, reason="Unreachable")
            log.error("API server not reachable", reason=failure)
            self._on_change()
        elif self.problem is not None and not failure:
            self.problem = None
            log.info("API server reachable again")
            self._on_change()
