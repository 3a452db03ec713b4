"""Shares request counts of callers between replicas through Redis."""

import asyncio
import secrets
from collections.abc import Mapping

from redis.asyncio import Redis

from controlplane.platform.bus.redis import LIBRARY_ERRORS, connection_pool
from controlplane.platform.rate_limits import WINDOW_S, RequestLimiter
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

KEY = "{towline:rates}:"
_INTERVAL_S = 0.5
_UNREACHABLE_INTERVAL_S = 2.0
_ANSWER_S = 2.0


class RateExchange:
    """Exchanges counts twice a second, only of frequent callers: no request waits for Redis.

    Without Redis each replica counts alone.
    """

    def __init__(self, url: str, rates: RequestLimiter, clock: Clock) -> None:
        self._redis = Redis.from_pool(connection_pool(url, _ANSWER_S))
        self._rates, self._clock = rates, clock
        self._replica_id = secrets.token_hex(4)
        self._stopping = False
        self.tasks = Tasks("rates")

    def start(self) -> None:
        """Starts the exchange; Redis may still be unreachable."""
        if self._rates.policy:
            self.tasks.forever("exchange", self._exchange_until_stopped())

    async def stop(self) -> None:
        """Stops the exchange."""
        # A library that fails while it is cancelled reports only the failure.
        self._stopping = True
        await self.tasks.stop()
        await self._redis.aclose()

    async def exchange(self) -> None:
        """Publishes own counts and reads those of others. Raises RedisError and similar if Redis is
        unreachable.
        """
        counts = self._rates.counts_to_share(self._clock.now().timestamp())
        if not counts:
            return
        window = self._rates.window
        key = f"{KEY}{window}"
        async with self._redis.pipeline(transaction=False) as commands:
            commands.hset(
                key, mapping={f"{self._replica_id} {name}": n for name, n in counts.items()}
            )
            commands.expire(key, int(3 * WINDOW_S))
            commands.hgetall(key)
            *_, all_counts = await commands.execute()
        self._rates.record_other_replicas(window, _sum_of_others(all_counts, self._replica_id))

    async def _exchange_until_stopped(self) -> None:
        pause = _INTERVAL_S
        while not self._stopping:
            await self._clock.sleep(pause)
            pause = _INTERVAL_S
            try:
                async with asyncio.timeout(_ANSWER_S):
                    await self.exchange()
            except LIBRARY_ERRORS:
                # The bus reports that Redis is unreachable.
                pause = _UNREACHABLE_INTERVAL_S


def _sum_of_others(counts: Mapping[bytes, bytes], own_id: str) -> dict[str, int]:
    """Returns the sums of other replicas' counts by caller; invalid counts are skipped."""
    sums: dict[str, int] = {}
    for field, count in counts.items():
        replica, _, caller = field.decode(errors="replace").partition(" ")
        if replica != own_id and count.isdigit() and len(count) < 10:
            sums[caller] = sums.get(caller, 0) + int(count)
    return sums
