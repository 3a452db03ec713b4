"""Ways out through an agent, by the CONNECT proxy that git is given."""

import asyncio
import contextlib
from base64 import b64encode
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import pytest

from core.errors import Unavailable
from core.identity import ClusterId
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from proxy.tunnel import egress as proxy_egress
from proxy.tunnel.egress import EgressProxy
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.egress import EgressPolicy
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.upstream import Upstream
from tests.fakes.clock import FakeClock
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.local_server import LocalServer
from tests.integration.proxy.stack import Stack, eventually, signed


@dataclass
class Way:
    """An agent that allows one host, the proxy before it, and what listens there."""

    egress: EgressProxy
    clock: FakeClock
    port: int
    closed: list[bytes]
    writers: list[asyncio.StreamWriter] = field(default_factory=list)

    async def connect(
        self, target: str, url: str | None = None
    ) -> tuple[bytes, asyncio.StreamReader, asyncio.StreamWriter]:
        """CONNECT: the head of the answer, and the connection."""
        given = urlsplit(url or await self.egress.proxy_url(CLUSTER))
        credential = b64encode(f"{given.username}:{given.password}".encode()).decode()
        reader, writer = await asyncio.open_connection(given.hostname, given.port)
        self.writers.append(writer)
        head = f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n"
        head += f"Proxy-Authorization: Basic {credential}\r\n\r\n"
        writer.write(head.encode())
        async with asyncio.timeout(10):
            return await reader.readuntil(b"\r\n\r\n"), reader, writer


async def _no_token() -> str:
    return "x"


@pytest.fixture
async def way(stack: Stack) -> AsyncIterator[Way]:
    """Everything connected."""
    closed: list[bytes] = []
    tasks = Tasks("test")

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                received += data
                writer.write(data)
                await writer.drain()
        closed.append(received)

    server = await LocalServer(echo).start()
    port = server.port
    policy = EgressPolicy.parse(f"127.0.0.1:{port}, 127.0.0.1:1")
    tasks.spawn("agent", _agent(stack, policy))
    await eventually(lambda: stack.proxy.tunnels.is_connected(CLUSTER))
    clock = FakeClock()
    egress = EgressProxy(clock, stack.proxy.tunnels.find)
    await egress.start()
    way = Way(egress, clock, port, closed)
    try:
        yield way
    finally:
        await egress.stop()
        for writer in way.writers:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
        await tasks.stop()
        await server.stop()


async def _agent(stack: Stack, policy: EgressPolicy) -> None:
    upstream = Upstream("127.0.0.1", 1, None, _no_token)
    async with stack.channel() as channel:
        me, guard = signed("agent-token"), ImpersonationPolicy()
        await TunnelClient(channel, me, upstream, SystemClock(), guard, egress=policy).run()


async def test_bytes_go_both_ways_to_a_half_close(way: Way) -> None:
    """More than every window; the end of one direction is forwarded alone."""
    head, reader, writer = await way.connect(f"127.0.0.1:{way.port}")
    assert head.startswith(b"HTTP/1.1 200 ")
    data = bytes(range(256)) * 20_000
    writer.write(data)
    writer.write_eof()
    async with asyncio.timeout(20):
        assert await reader.read(-1) == data
    await eventually(lambda: way.closed == [data])


async def test_a_client_that_leaves_ends_the_connection_there(way: Way) -> None:
    """And nothing of it is left at the hub."""
    _, _, writer = await way.connect(f"127.0.0.1:{way.port}")
    writer.transport.abort()
    await eventually(lambda: way.closed == [b""])


@pytest.mark.parametrize(
    ("target", "status"),
    [("127.0.0.1:22", b"403"), ("127.0.0.1:1", b"502"), ("bad host:443", b"400")],
)
async def test_refusals_say_why(way: Way, target: str, status: bytes) -> None:
    """Not on the agent's list, on it but not reachable, and not a host."""
    head, reader, _ = await way.connect(target)
    assert head.startswith(b"HTTP/1.1 " + status)
    assert await reader.read() == b""


async def test_credentials_end_and_cannot_be_guessed(way: Way) -> None:
    """A URL leads to its cluster for 15 minutes."""
    url = await way.egress.proxy_url(CLUSTER)
    await way.clock.advance(proxy_egress.LEASE_SECONDS + 1)
    guessed = url.replace(urlsplit(url).password or "", "guessed")
    for wrong in (url, guessed):
        head, *_ = await way.connect(f"127.0.0.1:{way.port}", wrong)
        assert head.startswith(b"HTTP/1.1 407 ")


async def test_egress_without_agent_or_allowlist_fails_at_once(stack: Stack, way: Way) -> None:
    """Before git is started."""
    with pytest.raises(Unavailable):
        await way.egress.proxy_url(ClusterId("unknown"))
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is not None and link.peer is not None
    nothing_allowed = EgressProxy(SystemClock(), lambda _: link)
    object.__setattr__(link.peer, "features", 0)
    with pytest.raises(Unavailable):
        await nothing_allowed.proxy_url(CLUSTER)
