"""What every listener of a process is made of: an address, a socket, uvicorn on it.

A process of the git cache has no other listeners, and loads nothing else of them.
"""

import asyncio
import socket
from collections.abc import Generator
from contextlib import contextmanager

import uvicorn

from fleet.errors import Invalid, Unavailable
from fleet.runtime.tasks import Tasks

OFF = "off"


class Listener(uvicorn.Server):
    """A uvicorn server that leaves signals to the process."""

    def __init__(self, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._draining = asyncio.Event()
        self._ended = asyncio.Event()

    async def run_on(self, bound: socket.socket) -> None:
        """Serve until `drain`, then idle; it returns only if it has ended unasked."""
        try:
            await self.serve(sockets=[bound])
        finally:
            bound.close()
            self._ended.set()
        if self.should_exit:
            await asyncio.Event().wait()

    async def drain(self) -> None:
        """Take no new connection, let open requests end, for the drain time at most."""
        self.should_exit = True
        self._draining.set()
        await self._ended.wait()

    async def main_loop(self) -> None:
        """Until `drain`. uvicorn's own looks ten times a second whether that has come."""
        await self.on_tick(0)
        await self._draining.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def address(text: str, setting: str) -> tuple[str, int]:
    """(host, port) of `host:port`. Invalid: anything else."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{text!r} is not host:port", field=setting)
    return host.strip("[]"), int(port)


async def serve(tasks: Tasks, name: str, listener: Listener) -> int:
    """Start a listener and wait until it listens; its port. Unavailable: the port is taken."""
    config = listener.config
    bound = bind((config.host, config.port), name, config.backlog)
    task = tasks.forever(name, listener.run_on(bound))
    while not listener.started:
        if task.done():
            raise Unavailable(f"the {name} listener ended at start")
        await asyncio.sleep(0.005)
    return bound.getsockname()[1]


def bind(where: tuple[str, int], name: str, backlog: int | None = None) -> socket.socket:
    """A socket that listens at (host, port). Unavailable: the port is taken."""
    family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
    try:
        return socket.create_server(where, family=family, backlog=backlog)
    except OSError as error:
        text = f"cannot listen on {where[0]}:{where[1]} for {name}: {error.strerror or error}"
        raise Unavailable(text) from None
