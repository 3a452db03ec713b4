"""Rate limits per git server: concurrency, requests per second, and Retry-After pauses."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from core.errors import Unavailable
from core.runtime.clock import Clock
from core.runtime.token_bucket import RatePolicy, TokenBucket

_MAX_PAUSE = 3600.0


class _ServerLimits:
    """Token bucket, semaphore and end of a pause of one server."""

    def __init__(self, at_once: int, policy: RatePolicy, now: float) -> None:
        self.slots = asyncio.Semaphore(at_once)
        self.bucket = TokenBucket(policy, now)
        self.paused_until = now


class ServerRateLimiter:
    """Rate limits of all servers, by `host:port`.

    The rate is `per_second`, with bursts of twice as many requests.
    """

    def __init__(self, clock: Clock, *, at_once: int, per_second: float) -> None:
        self._clock = clock
        self._at_once = at_once
        self._policy = RatePolicy(rate=per_second, burst=max(1.0, 2 * per_second))
        self._servers: dict[str, _ServerLimits] = {}

    @asynccontextmanager
    async def slot(self, server: str) -> AsyncGenerator[None]:
        """Waits until the limits allow a request. Raises Unavailable during a requested pause."""
        limiter = self._limits_of(server)
        async with limiter.slots:
            self._check_pause(server, limiter)
            if wait := limiter.bucket.reserve(self._clock.monotonic()):
                await self._clock.sleep(wait)
            yield

    def pause(self, server: str, seconds: float) -> None:
        """Sends no requests to a server for some seconds, as its Retry-After requests."""
        limiter = self._limits_of(server)
        until = self._clock.monotonic() + min(seconds, _MAX_PAUSE)
        limiter.paused_until = max(limiter.paused_until, until)

    def _limits_of(self, server: str) -> _ServerLimits:
        limits = self._servers.get(server)
        if limits is None:
            limits = _ServerLimits(self._at_once, self._policy, self._clock.monotonic())
            self._servers[server] = limits
        return limits

    def _check_pause(self, server: str, limiter: _ServerLimits) -> None:
        remaining = limiter.paused_until - self._clock.monotonic()
        if remaining > 0:
            raise Unavailable(
                f"{server} requested a pause; {remaining:.0f} s remain", retry_after=remaining
            )
