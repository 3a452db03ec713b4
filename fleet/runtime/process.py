"""Signals, borrowed for the life of a process and given back."""

import asyncio
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)


@asynccontextmanager
async def stop_on_signal() -> AsyncIterator[asyncio.Event]:
    """An event that SIGINT or SIGTERM sets. A second signal ends the process at once."""
    loop = asyncio.get_running_loop()
    stop = asyncio.Event()

    def on_signal() -> None:
        if stop.is_set():
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)
            raise KeyboardInterrupt
        stop.set()

    for number in STOP_SIGNALS:
        loop.add_signal_handler(number, on_signal)
    try:
        yield stop
    finally:
        for number in STOP_SIGNALS:
            loop.remove_signal_handler(number)
