"""Shares request counts of callers between replicas through Redis."""

import asyncio
import secrets
from collections.abc import Mapping

from redis.asyncio import Redis
from redis.exceptions import RedisError

from controlplane.platform.bus.redis import pool
from controlplane.platform.rate_limits import WINDOW_S, RequestLimiter
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

KEY = "{towline:rates}:"
_PAUSE_S = 0.5
_AWAY_S = 2.0
_ANSWER_S = 2.0
_LIBRARY_ERRORS = (RedisError, OSError, TimeoutError)


class RateExchange:
    """Exchanges counts twice a second, only of frequent callers: no request waits for Redis.

    Without Redis each replica counts alone.
    """

    def __init__(self, url: str, rates: RequestLimiter, clock: Clock) -> None:
        self._redis = Redis.from_pool(pool(url, _ANSWER_S))
        self._rates, self._clock = rates, clock
        self._me = secrets.token_hex(4)
        self._leaving = False
        self.tasks = Tasks("rates")

    def start(self) -> None:
        """Starts the exchange; Redis may still be unreachable."""
        if self._rates.policy:
            self.tasks.forever("exchange", self._exchange_until_it_ends())

    async def stop(self) -> None:
        """Stops the exchange."""
        # A library that fails while it is cancelled reports only the failure.
        self._leaving = True
        await self.tasks.stop()
        await self._redis.aclose()

    async def exchange(self) -> None:
        """Publishes own counts and reads those of others. Raises RedisError and similar if Redis is
        unreachable.
        """
        busy = self._rates.busy(self._clock.now().timestamp())
        if not busy:
            return
        window = self._rates.window
        key = f"{KEY}{window}"
        async with self._redis.pipeline(transaction=False) as steps:
            steps.hset(key, mapping={f"{self._me} {name}": n for name, n in busy.items()})
            steps.expire(key, int(3 * WINDOW_S))
            steps.hgetall(key)
            *_, all_counts = await steps.execute()
        self._rates.learn(window, _elsewhere(all_counts, self._me))

    async def _exchange_until_it_ends(self) -> None:
        pause = _PAUSE_S
        while not self._leaving:
            await self._clock.sleep(pause)
            pause = _PAUSE_S
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self.exchange()
            except _LIBRARY_ERRORS:
                # The bus reports that Redis is unreachable.
                pause = _AWAY_S


def _elsewhere(counts: Mapping[bytes, bytes], me: str) -> dict[str, int]:
    """Returns the sums of other replicas' counts by caller; invalid counts are skipped."""
    sums: dict[str, int] = {}
    for field, count in counts.items():
        replica, _, caller = field.decode(errors="replace").partition(" ")
        if replica != me and count.isdigit() and len(count) < 10:
            sums[caller] = sums.get(caller, 0) + int(count)
    return sums
