"""Whether requests may come here: asked often, so answered from a short memory."""

import asyncio

from controlplane.ports import Store
from fleet.errors import TowlineError
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks

REMEMBERED_SECONDS = 1.0
ANSWER_SECONDS = 2.0


class StoreProbe:
    """Asks the store for a row that never is, one question at a time."""

    def __init__(self, store: Store, clock: Clock, tasks: Tasks) -> None:
        self._store, self._clock, self._tasks = store, clock, tasks
        self._problem: str | None = None
        self._good_until = 0.0
        self._asking: asyncio.Task[None] | None = None

    async def problem(self) -> str | None:
        """Why the store cannot be used now; None if it can."""
        if self._asking is None and self._clock.monotonic() < self._good_until:
            return self._problem
        if self._asking is None:
            self._asking = self._tasks.spawn("store probe", self._ask())
        # A question to a database that has vanished cannot be called back, only left alone.
        await asyncio.wait({self._asking}, timeout=ANSWER_SECONDS)
        return "the store does not answer" if self._asking is not None else self._problem

    async def _ask(self) -> None:
        try:
            async with self._store.read() as tx:
                await tx.users.get("")
            self._problem = None
        except TowlineError as error:
            self._problem = error.message
        finally:
            self._good_until = self._clock.monotonic() + REMEMBERED_SECONDS
            self._asking = None
