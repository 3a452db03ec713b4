"""Signal handlers for the life of a process."""

import asyncio
import signal
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


@asynccontextmanager
async def stop_on_signal() -> AsyncGenerator[asyncio.Event, None]:
    """Provides an event that SIGINT or SIGTERM sets; a second SIGINT ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_interrupt() -> None:
        if stop.is_set():
            loop.remove_signal_handler(signal.SIGINT)
            raise KeyboardInterrupt
        stop.set()

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    loop.add_signal_handler(signal.SIGTERM, stop.set)
    try:
        yield stop
    finally:
        loop.remove_signal_handler(signal.SIGINT)
        loop.remove_signal_handler(signal.SIGTERM)
