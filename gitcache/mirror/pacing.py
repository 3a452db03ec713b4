"""How much one git server is asked: so many requests at once, so many a second, none in a pause."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from fleet.errors import Unavailable
from fleet.runtime.clock import Clock

_LONGEST_PAUSE = 3600.0


class _Host:
    """A token bucket, a semaphore and the end of a pause for one server."""

    def __init__(self, at_once: int, burst: float, now: float) -> None:
        self.slots = asyncio.Semaphore(at_once)
        self.tokens = burst
        self.filled = now
        self.quiet_until = now


class Pacing:
    """The turns of all servers. `per_second` is refilled steadily, `burst` may come at once."""

    def __init__(self, clock: Clock, *, at_once: int, per_second: float) -> None:
        self._clock = clock
        self._at_once = at_once
        self._rate = per_second
        self._burst = max(1.0, 2 * per_second)
        self._hosts: dict[str, _Host] = {}

    @asynccontextmanager
    async def turn(self, host: str) -> AsyncGenerator[None]:
        """Wait for this client's turn at a server. Unavailable: it has asked not to be asked."""
        one = self._host(host)
        async with one.slots:
            self._check_pause(host, one)
            if (wait := self._take(one)) > 0:
                await self._clock.sleep(wait)
            yield

    def pause(self, host: str, seconds: float) -> None:
        """Leave a server alone for a while, as its Retry-After says."""
        one = self._host(host)
        until = self._clock.monotonic() + min(seconds, _LONGEST_PAUSE)
        one.quiet_until = max(one.quiet_until, until)

    def _host(self, host: str) -> _Host:
        found = self._hosts.get(host)
        if found is None:
            found = _Host(self._at_once, self._burst, self._clock.monotonic())
            self._hosts[host] = found
        return found

    def _check_pause(self, host: str, one: _Host) -> None:
        left = one.quiet_until - self._clock.monotonic()
        if left > 0:
            raise Unavailable(
                f"{host} has asked for a pause of {left:.0f} s more", retry_after=left
            )

    def _take(self, one: _Host) -> float:
        """Seconds until this turn's token is there; it is taken in advance."""
        now = self._clock.monotonic()
        one.tokens = min(self._burst, one.tokens + (now - one.filled) * self._rate) - 1
        one.filled = now
        return max(0.0, -one.tokens / self._rate)
