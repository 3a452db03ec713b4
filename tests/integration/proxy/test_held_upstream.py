"""An API server that says its last and leaves while the agent does not read."""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import uvloop

from core.http1.connection import UpstreamConnection
from core.runtime.clock import SystemClock
from syncagent.tunnel.upstream import Upstream, UpstreamPool
from tests.fakes.tls import TestAuthority

SAID = bytes(range(256)) * (4 << 12)
HELD_SECONDS = 0.01


class SlowUser:
    """Reads a piece at a time. `lost` is done once the connection has ended."""

    def __init__(self, connection: UpstreamConnection) -> None:
        self.heard = bytearray()
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._connection = connection
        connection.user = self
        connection.write(b"?")

    def on_upstream_data(self, data: bytes) -> None:
        self.heard += data
        self._connection.pause_reading()
        asyncio.get_running_loop().call_later(HELD_SECONDS, self._connection.resume_reading)

    def on_upstream_closed(self) -> None:
        self.lost.set_result(None)

    def on_upstream_drained(self) -> None: ...


@pytest.fixture(params=[False, True], ids=["plain", "tls"])
def tls(request: pytest.FixtureRequest, tmp_path: Path) -> TestAuthority | None:
    return TestAuthority(tmp_path) if request.param else None


@pytest.fixture
def port(tls: TestAuthority | None) -> Iterator[int]:
    """Says all that it has to the first who asks, and is gone without a further look."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as thread:
        said = thread.submit(_say, listening, tls)
        yield listening.getsockname()[1]
        said.result(20)


def _say(listening: socket.socket, authority: TestAuthority | None) -> None:
    accepted, _ = listening.accept()
    with accepted:
        if authority is None:
            accepted.recv(1)
            accepted.sendall(SAID)
            return
        tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        tls.load_cert_chain(authority.certificate, authority.key)
        with tls.wrap_socket(accepted, server_side=True) as secured:
            secured.recv(1)
            secured.sendall(SAID)
            secured.settimeout(0)
            with contextlib.suppress(OSError):
                secured.unwrap()


async def _heard(authority: TestAuthority | None, port: int) -> bytes:
    async def token() -> str:
        return "service-account"

    context = authority.client_context() if authority else None
    tls = (lambda: context) if context else None
    pool = UpstreamPool(Upstream("127.0.0.1", port, tls, token), SystemClock())
    user = SlowUser(await pool.dial())
    async with asyncio.timeout(60):
        await user.lost
    return bytes(user.heard)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_the_last_bytes_are_read_however_slowly(
    run: Callable[[Coroutine[Any, Any, bytes]], bytes], tls: TestAuthority | None, port: int
) -> None:
    """As of an exec whose output its user reads slowly."""
    assert run(_heard(tls, port)) == SAID
