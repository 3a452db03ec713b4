"""A clock that stands still until a test moves it."""

import asyncio
import heapq
from datetime import UTC, datetime, timedelta
from itertools import count

START = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """A `core.runtime.clock.Clock` whose time only `advance` moves."""

    def __init__(self, start: datetime = START) -> None:
        self._start = start
        self._elapsed = 0.0
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []
        self._order = count()

    def now(self) -> datetime:
        return self._start + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if seconds <= 0:
            await asyncio.sleep(0)
            return
        awake = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._elapsed + seconds, next(self._order), awake))
        await awake

    @property
    def sleepers(self) -> int:
        """Number of sleepers that wait for the time to move."""
        return sum(not awake.done() for _, _, awake in self._sleepers)

    async def advance(self, seconds: float) -> None:
        """Move the time on; every sleeper wakes at its own instant, in order, and runs."""
        await settle()
        end = self._elapsed + seconds
        while self._sleepers and self._sleepers[0][0] <= end:
            self._elapsed, _, awake = heapq.heappop(self._sleepers)
            if not awake.done():
                awake.set_result(None)
                await settle()
        self._elapsed = end


async def settle(turns: int = 20) -> None:
    """Let every task that can run do so, as far as `turns` rounds of the loop carry it."""
    for _ in range(turns):
        await asyncio.sleep(0)
