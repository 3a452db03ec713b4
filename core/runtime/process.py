"""The life of processes: signals, the end of children, and the number of open files."""

import asyncio
import contextlib
import resource
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

# Programs that close all possible files one by one would take long with more.
_MAX_FILES = 1 << 20


async def wait_for_end(process: Process) -> int:
    """Waits for a child process that ends, and closes its pipes. Returns its exit status.

    `Process.wait` also waits for the end of the pipes: a full pipe that nobody reads never ends.
    """
    if (transport := getattr(process, "_transport", None)) is not None:
        transport.close()
    return await process.wait()


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


def raise_descriptor_limit() -> int:
    """Lets this process open as many files as its hard limit allows, at most a million; returns the
    limit.

    Service managers start programs with a soft limit of 1,024, for programs that use select(2)
    (https://0pointer.net/blog/file-descriptor-limits.html). Child processes inherit the new limit.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    target = _MAX_FILES if hard == resource.RLIM_INFINITY else min(hard, _MAX_FILES)
    if soft != resource.RLIM_INFINITY and soft < target:
        # Some systems have an even lower limit that no process may exceed.
        with contextlib.suppress(ValueError, OSError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (target, hard))
    return resource.getrlimit(resource.RLIMIT_NOFILE)[0]
