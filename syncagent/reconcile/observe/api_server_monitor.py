"""Health of the API server, checked every few seconds."""

from collections.abc import Callable

import structlog

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.spec.status import Problem
from syncagent.ports import KubeApi

log = structlog.get_logger(__name__)

_EVERY_S = 2.0
_AGAIN_S = 0.5
# A single failed check is ignored.
_MISSES = 2


class ApiServerMonitor:
    """Monitors the API server; `problem` is the reason why it cannot be reached, None while it can.
    A server that refuses connections is reported within 3 s, a silent one within 11 s.
    """

    def __init__(self, cluster: KubeApi, clock: Clock, changed: Callable[[], None]) -> None:
        self.problem: Problem | None = None
        self._cluster = cluster
        self._clock = clock
        self._changed = changed
        self._misses = 0

    async def run(self) -> None:
        """Checks the server until cancelled."""
        while True:
            self._note(await self._ask())
            await self._clock.sleep(_AGAIN_S if self._misses == 1 else _EVERY_S)

    async def _ask(self) -> str:
        """Checks once; returns the error message, or empty."""
        try:
            await self._cluster.ping()
        except TowlineError as error:
            return error.message
        return ""

    def _note(self, wrong: str) -> None:
        self._misses = self._misses + 1 if wrong else 0
        if self.problem is None and self._misses >= _MISSES:
            self.problem = Problem(wrong, reason="Unreachable")
            log.error("API server not reachable", reason=wrong)
            self._changed()
        elif self.problem is not None and not wrong:
            self.problem = None
            log.info("API server reachable again")
            self._changed()
