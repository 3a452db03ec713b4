"""Listeners with uvicorn: address, socket and server.

A process of the git cache needs only this module for its listeners.
"""

import asyncio
import errno
import os
import socket
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import cast

import uvicorn

from core.errors import Invalid, Unavailable
from core.runtime.proxy_protocol_server import ProxyProtocolServer, TlsServer
from core.runtime.tasks import Tasks
from core.trusted_proxies import TrustedProxies

OFF = "off"
SETTINGS = {
    "https": "listen",
    "agents": "listen_agents",
    "http": "listen_http",
    "metrics": "listen_metrics",
    "peers": "listen_peers",
    "replicas": "listen_replicas",
}
"""Settings with the addresses of the listeners, by the names of the listeners."""


class Listener(uvicorn.Server):
    """uvicorn server that leaves signal handling to the process."""

    def __init__(
        self, config: uvicorn.Config, proxy_protocol: TrustedProxies | None = None
    ) -> None:
        """`proxy_protocol`: the load balancers that name clients with the PROXY protocol."""
        super().__init__(config)
        self._proxy_protocol = proxy_protocol
        self._proxy_protocol_server: ProxyProtocolServer | None = None
        self._draining = asyncio.Event()
        self._ended = asyncio.Event()

    async def run_on(self, bound: socket.socket) -> None:
        """Serves until `drain`, then waits; returns only if the server ends unexpectedly."""
        try:
            await self._run([bound])
        finally:
            bound.close()

    async def run_on_path(self) -> None:
        """Serves on the Unix socket of the configuration; otherwise as `run_on`."""
        await self._run(None)

    async def _run(self, sockets: list[socket.socket] | None) -> None:
        try:
            await self.serve(sockets=sockets)
        finally:
            self._ended.set()
        if self.should_exit:
            await asyncio.Event().wait()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        if self._proxy_protocol is None or not sockets:
            await super().startup(sockets)
            return
        # uvicorn's own servers accept nothing; they only have this place to read the header.
        await super().startup([])
        tls = TlsServer(self.config.ssl) if self.config.ssl else None
        self._proxy_protocol_server = ProxyProtocolServer(
            sockets[0], self._make_protocol, self._proxy_protocol, tls
        )
        self._proxy_protocol_server.start()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._proxy_protocol_server is not None:
            await self._proxy_protocol_server.stop()
        await super().shutdown(sockets)

    def _make_protocol(self) -> asyncio.Protocol:
        make = cast(Callable[..., asyncio.Protocol], self.config.http_protocol_class)
        return make(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )

    async def drain(self) -> None:
        """Stops accepting connections, and waits for open requests, at most the drain time."""
        self.should_exit = True
        self._draining.set()
        await self._ended.wait()

    async def main_loop(self) -> None:
        """Waits for `drain`, instead of polling ten times a second as uvicorn does."""
        await self.on_tick(0)
        await self._draining.wait()

    @contextmanager
    def capture_signals(self) -> Generator[None, None, None]:
        yield


def address(text: str, setting: str) -> tuple[str, int]:
    """Parses `host:port`. Raises Invalid."""
    host, _, port = text.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65535:
        raise Invalid(f"{text!r} is not of the form host:port", field=setting)
    return host.strip("[]"), int(port)


async def serve(tasks: Tasks, name: str, listener: Listener) -> int:
    """Starts a listener, waits until it listens, returns its port. Unavailable: port in use."""
    config = listener.config
    bound = bind((config.host, config.port), name, config.backlog)
    task = tasks.forever(name, listener.run_on(bound))
    await _wait_started(task, name, listener)
    return bound.getsockname()[1]


async def serve_backend(tasks: Tasks, name: str, listener: Listener) -> None:
    """Starts a listener on a Unix socket, and waits until it listens. Unavailable: it stopped."""
    await _wait_started(tasks.forever(name, listener.run_on_path()), name, listener)


async def _wait_started(task: asyncio.Task[None], name: str, listener: Listener) -> None:
    while not listener.started:
        if task.done():
            raise Unavailable(f"the {name} listener stopped at startup")
        await asyncio.sleep(0.005)


def bind(host_and_port: tuple[str, int], name: str, backlog: int | None = None) -> socket.socket:
    """Opens a listening socket at (host, port). Raises Unavailable if the port is in use."""
    family = socket.AF_INET6 if ":" in host_and_port[0] else socket.AF_INET
    try:
        return socket.create_server(host_and_port, family=family, backlog=backlog)
    except OSError as error:
        raise listen_error(host_and_port, name, error) from None


def listen_error(host_and_port: tuple[str, int], name: str, error: OSError) -> Unavailable:
    """Describes a listener that cannot start."""
    # Python appends the call and the address to the text of the error.
    number = error.errno or 0
    reason = os.strerror(number) if number > 0 else error.strerror or error
    hint = ""
    if number == errno.EADDRINUSE:
        flag = f"--{SETTINGS[name].replace('_', '-')}"
        hint = f"; stop the program that uses this port, or set another one with {flag}"
    return Unavailable(
        f"cannot listen on {host_and_port[0]}:{host_and_port[1]} for {name}: {reason}{hint}"
    )
