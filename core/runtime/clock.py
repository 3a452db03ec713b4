"""Time as a dependency: code that needs the time gets a `Clock`."""

import asyncio
import time
from datetime import datetime
from typing import Protocol

from core.runtime.now import utc_now


class Clock(Protocol):
    """The wall clock, the monotonic clock and waiting."""

    def now(self) -> datetime:
        """Returns the current time in UTC, with time zone."""
        ...

    def monotonic(self) -> float:
        """Returns monotonic seconds, for durations and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Waits; returns at once for zero or negative seconds."""
        ...


class SystemClock:
    """The system's clocks."""

    def now(self) -> datetime:
        return utc_now()

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
