"""Time as an argument: everything that needs the time is given a `Clock`."""

import asyncio
import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    """The wall clock, the monotonic clock and waiting."""

    def now(self) -> datetime:
        """The time of day, aware, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that only ever grow; for measuring and deadlines."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; returns at once for zero and below."""
        ...


class SystemClock:
    """The machine's clocks."""

    def now(self) -> datetime:
        return datetime.now(UTC)  # noqa: TID251

    def monotonic(self) -> float:
        return time.monotonic()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, seconds))
