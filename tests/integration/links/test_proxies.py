"""Where nothing but an HTTP CONNECT proxy leads to the hub."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
import uvicorn
from starlette.applications import Starlette

from core.errors import Unavailable
from core.links.websocket import WebSocketForwarder
from core.rpc.calls import CallFailed, CallStatus
from core.rpc.implementations import GrpcImplementation
from core.rpc.methods import TUNNEL
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from proxy.tunnel.websocket import agents_route
from syncagent.compose import control_plane_access
from syncagent.link.channel import Endpoint
from syncagent.settings import HubSettings
from syncagent.upkeep.doctor import diagnose
from tests.fakes.links import server_of
from tests.fakes.local_server import LocalServer, copy, relay
from tests.fakes.tls import TestAuthority


class ConnectProxy(LocalServer):
    """Opens tunnels to anywhere, and keeps what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        super().__init__(self._open)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        target = head.split(b" ")[1].decode()
        self.asked.append(head.split(b" ")[0].decode() + " " + target)
        host, _, port = target.rpartition(":")
        try:
            await relay(reader, writer, int(port), host, hello=b"HTTP/1.1 200 OK\r\n\r\n")
        except OSError:
            writer.write(b"HTTP/1.1 502 Bad Gateway\r\n\r\n")


class NoApiServer:
    """Is away."""

    async def request(self, *_: object, **__: object) -> dict[str, object]:
        raise Unavailable("none here")


@pytest.fixture
async def proxy(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[ConnectProxy]:
    """The proxy that the environment names."""
    async with ConnectProxy() as running:
        monkeypatch.setenv("HTTPS_PROXY", running.url)
        monkeypatch.delenv("NO_PROXY", raising=False)
        monkeypatch.delenv("no_proxy", raising=False)
        yield running


@pytest.fixture
def authority(tmp_path: Path) -> TestAuthority:
    """Certificates for 127.0.0.1 and localhost."""
    return TestAuthority(tmp_path)


async def test_a_websocket_goes_through_the_proxy(
    proxy: ConnectProxy, authority: TestAuthority
) -> None:
    """Bytes come back as they went, by TLS inside the proxy's tunnel."""
    async with AsyncExitStack() as stack:
        tasks = Tasks("test")
        echo = await stack.enter_async_context(LocalServer(copy))
        route = agents_route(("127.0.0.1", echo.port), BridgedPeers())
        server = uvicorn.Server(_config(Starlette(routes=[route]), authority))
        serving = tasks.spawn("serve", server.serve())
        while not server.started:
            await asyncio.sleep(0.01)
        port = server.servers[0].sockets[0].getsockname()[1]
        pipe = WebSocketForwarder(f"wss://localhost:{port}", authority.client_context)
        tasks.spawn("pipe", pipe.run())
        reader, writer = await asyncio.open_connection("127.0.0.1", pipe.port)
        data = bytes(range(256)) * 4096
        writer.write(data)
        async with asyncio.timeout(10):
            assert await reader.readexactly(len(data)) == data
        writer.close()
        assert proxy.asked == [f"CONNECT localhost:{port}"]
        server.should_exit = True
        await asyncio.wait({serving}, timeout=5)
        await tasks.stop()


@pytest.mark.parametrize("wire", GrpcImplementation)
async def test_grpc_goes_through_the_proxy_unless_no_proxy_matches(
    proxy: ConnectProxy,
    authority: TestAuthority,
    monkeypatch: pytest.MonkeyPatch,
    wire: GrpcImplementation,
) -> None:
    """The proxy is asked for the way; NO_PROXY holds."""
    clock = SystemClock()
    server = server_of(wire, {}, clock)
    port = await server.start(("localhost", 0), authority)
    ca = authority.ca.read_bytes()
    endpoint = Endpoint(f"https://localhost:{port}", "twa_x", ca, wire=wire)
    for _ in range(2):
        channel = endpoint.connect(clock)
        with pytest.raises(CallFailed) as refused:
            await (await channel.call(TUNNEL, ())).read()
        assert refused.value.status is CallStatus.UNIMPLEMENTED
        await channel.close()
        assert proxy.asked == [f"CONNECT localhost:{port}"]
        monkeypatch.setenv("NO_PROXY", "localhost")
    await server.stop()


async def test_the_doctor_looks_at_the_proxy_where_there_is_one(
    proxy: ConnectProxy, authority: TestAuthority, tmp_path: Path
) -> None:
    """What is beyond it cannot be connected to from here: only signing in tells."""
    way = control_plane_access(HubSettings("https://localhost:1", "twa_x", authority.ca))
    found = {one.step: one async for one in diagnose(way, NoApiServer(), tmp_path)}
    assert found["connects"].good and "HTTPS_PROXY" in found["connects"].text
    assert proxy.asked[-1] == "CONNECT localhost:1"
    assert not found["signs in"].good and not found["API server"].good


@pytest.mark.parametrize(
    ("url", "text"),
    [
        ("http://user:tuna/fish@127.0.0.1:1", "percent-encode"),
        ("127.0.0.1", "127.0.0.1:80 (the proxy"),
    ],
)
async def test_the_doctor_reads_a_proxy_as_the_agent_does(
    url: str, text: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The error about an unreadable URL contains no piece of its password."""
    monkeypatch.setenv("HTTPS_PROXY", url)
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    way = control_plane_access(HubSettings("https://hub.example:1", "twa_x"))
    found = [one async for one in diagnose(way, NoApiServer(), tmp_path)]
    findings_text = " ".join(one.text for one in found)
    assert text in findings_text and "tuna" not in findings_text


def _config(app: Starlette, authority: TestAuthority) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        port=0,
        ws="wsproto",
        lifespan="off",
        log_config=None,
        timeout_graceful_shutdown=1,
        ssl_certfile=str(authority.certificate),
        ssl_keyfile=str(authority.key),
    )
