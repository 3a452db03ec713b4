"""Readiness check of the store; caches the result, as probes are frequent."""

import asyncio

from controlplane.access.ports import UserStore
from controlplane.platform.ports import Store
from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

CACHE_SECONDS = 1.0
TIMEOUT_SECONDS = 2.0


class StoreReadiness:
    """Queries the store for a row that does not exist, one query at a time."""

    def __init__(self, store: Store, clock: Clock, tasks: Tasks) -> None:
        self._store, self._clock, self._tasks = store, clock, tasks
        self._problem: str | None = None
        self._cached_until = 0.0
        self._query: asyncio.Task[None] | None = None

    async def problem(self) -> str | None:
        """Returns the reason if the store is not usable, else None."""
        if self._query is None and self._clock.monotonic() < self._cached_until:
            return self._problem
        if self._query is None:
            self._query = self._tasks.spawn("store probe", self._query_store())
        # A query to an unreachable database cannot be cancelled, only left running.
        await asyncio.wait({self._query}, timeout=TIMEOUT_SECONDS)
        return "the store does not respond" if self._query is not None else self._problem

    async def _query_store(self) -> None:
        try:
            async with self._store.read() as tx:
                await tx[UserStore].get("")
            self._problem = None
        except TowlineError as error:
            self._problem = error.message
        finally:
            self._cached_until = self._clock.monotonic() + CACHE_SECONDS
            self._query = None
