"""The proxy in one process: uvicorn with the edge, agents' listener, an agent, its upstream."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket

from core.rpc.calls import CallChannel, CallServer, Metadata, ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.http2_server import Http2Server
from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.trusted_proxies import TrustedProxies
from proxy.compose import Ingress, ProxyPorts, build
from proxy.gateway.connection import UserConnection
from proxy.kube_proxy import KubeProxy
from proxy.settings import DataPlane, ProxySettings
from syncagent.tunnel.client import TunnelClient
from syncagent.tunnel.data_link import ControlPlaneHost
from syncagent.tunnel.guard import ImpersonationPolicy
from syncagent.tunnel.id_token_proofs import IdentityProofs
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import CLUSTER, FakeInstallation
from tests.fakes.tls import TestAuthority
from tests.planes import chosen_plane


async def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until a condition holds; TimeoutError if it never does."""
    for _ in range(int(seconds / 0.01)):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise TimeoutError(f"not so within {seconds} s")


@dataclass
class Stack:
    """What a test may touch. `port` speaks HTTPS, `plain_port` HTTP."""

    proxy: KubeProxy
    installation: FakeInstallation
    authority: TestAuthority
    port: int
    plain_port: int
    agents_port: int
    tasks: Tasks
    client: TunnelClient | None = None
    """The agent that was started last."""
    policy: ImpersonationPolicy = ImpersonationPolicy()
    """Whom the next agent impersonates."""
    proofs: IdentityProofs | None = None
    """What the next agent accepts as proof of identity."""
    frozen: str = ""
    """Why agents refuse all requests; empty: they do not."""

    @property
    def pools(self) -> int:
        """Number of pools of connections to the API server: one for each data plane."""
        return 1 if self.proxy.front is None else 2

    @property
    def connections(self) -> int:
        """Number of connections of users."""
        front = self.proxy.front
        return len(self.proxy.gateway.connections) if front is None else front.hub.connections()

    def close_idle(self) -> None:
        """Close what uvicorn and the native listener close when they stop."""
        for connection in tuple(self.proxy.gateway.connections):
            connection.shutdown()
        if self.proxy.front is not None:
            self.proxy.front.drain()

    async def connect(self, upstream: Upstream, token: str = "agent-token") -> asyncio.Task[str]:
        """Start an agent; returns when the proxy knows it."""
        task = self.tasks.spawn("agent", self.agent(upstream, token))
        await eventually(lambda: self.proxy.tunnels.is_connected(CLUSTER) or task.done())
        await eventually(lambda: self.has_data_link or task.done())
        return task

    @property
    def has_data_link(self) -> bool:
        """Reports whether the agent has opened its data link, if it can."""
        front, link = self.proxy.front, self.proxy.tunnels.find(CLUSTER)
        if front is None or link is None or link.peer is None:
            return front is None
        can_open = link.peer.data_link == front.links.version
        return not can_open or front.links.find_or_offer(link) > 0

    async def agent(self, upstream: Upstream, token: str) -> str:
        """Run an agent to the end of its link."""
        async with self.channel() as channel:
            self.client = TunnelClient(
                channel,
                signed(token),
                upstream,
                SystemClock(),
                self.policy,
                proofs=self.proofs,
                frozen=lambda: self.frozen,
                control_plane=ControlPlaneHost.of(
                    ("127.0.0.1", client_tls(self.authority.ca.read_bytes()))
                ),
            )
            return await self.client.run()

    @asynccontextmanager
    async def channel(self) -> AsyncGenerator[CallChannel]:
        """A way to the agents' listener."""
        target = CallTarget(
            "127.0.0.1", self.agents_port, client_tls(self.authority.ca.read_bytes())
        )
        channel = Http2Channel(target, SystemClock())
        try:
            yield channel
        finally:
            await channel.close()


def signed(token: str) -> Metadata:
    """What a call carries."""
    return (("authorization", f"Bearer {token}"),)


async def _hello(request: Request) -> Response:
    body = await request.body()
    return PlainTextResponse(f"{request.method} {request.url.path} {len(body)}")


async def _echo(socket: WebSocket) -> None:
    await socket.accept()
    await socket.send_text(await socket.receive_text())
    await socket.close()


APPLICATION = Starlette(
    routes=[
        Route("/{path:path}", _hello, methods=["GET", "POST"]),
        WebSocketRoute("/gql", _echo),
    ]
)


def connection(stack: Stack) -> UserConnection:
    """The connection of the only user, at the proxy."""
    (one,) = stack.proxy.gateway.connections
    assert isinstance(one, UserConnection)
    return one


@asynccontextmanager
async def run_stack(
    authority: TestAuthority,
    settings: ProxySettings | None = None,
    installation: FakeInstallation | None = None,
    balancers: TrustedProxies | None = None,
) -> AsyncGenerator[Stack, None]:
    """A proxy that listens on free ports; everything it started ends with it. `balancers` send the
    PROXY protocol to the native listener.
    """
    installation = installation or FakeInstallation()
    settings = settings or ProxySettings()
    if "data_plane" not in settings.model_fields_set:
        plane = chosen_plane(DataPlane.PORTABLE)
        settings = settings.model_copy(update={"data_plane": plane})
    recordings = TemporaryDirectory()
    proxy = build(
        settings,
        SystemClock(),
        ProxyPorts(installation, installation, installation, installation, installation.agent),
        recordings=Path(recordings.name),
        ingress=Ingress(balancers=balancers),
    )
    proxy.start()
    tasks = Tasks("stack")
    agents = Http2Server({TUNNEL: proxy.tunnels.serve}, ServerLimits(), SystemClock())
    agents_port = await agents.start(("127.0.0.1", 0), authority)
    servers = [_server(proxy, authority), _server(proxy, None)]
    if proxy.front is not None:
        servers = [_server(proxy, None)]
    serving = [tasks.spawn("serve", server.serve()) for server in servers]
    await eventually(lambda: all(server.started for server in servers))
    if proxy.front is not None:
        pair = (authority.certificate, authority.key)
        ports = [proxy.front.listen("127.0.0.1", 0, tls) for tls in (pair, None)]
    else:
        ports = [server.servers[0].sockets[0].getsockname()[1] for server in servers]
    stack = Stack(proxy, installation, authority, ports[0], ports[1], agents_port, tasks)
    try:
        yield stack
    finally:
        await _stop(stack, servers, serving, agents)
        recordings.cleanup()


async def _stop(
    stack: Stack,
    servers: list[uvicorn.Server],
    serving: list[asyncio.Task[None]],
    agents: CallServer,
) -> None:
    for proxied_request in stack.proxy.gateway.proxied_requests:
        proxied_request.on_user_lost()
    for server in servers:
        server.should_exit = True
    await asyncio.wait(serving, timeout=5)
    await stack.proxy.stop()
    await stack.tasks.stop()
    await agents.stop()


def _server(proxy: KubeProxy, authority: TestAuthority | None) -> uvicorn.Server:
    tls: dict[str, Any] = {}
    if authority is not None:
        tls = {"ssl_certfile": str(authority.certificate), "ssl_keyfile": str(authority.key)}
    front = proxy.front
    config = uvicorn.Config(
        APPLICATION,
        host="127.0.0.1",
        port=0,
        uds=str(front.backend.path) if front is not None else None,
        http=front.protocol_class if front is not None else proxy.protocol_class,
        ws="wsproto",
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_graceful_shutdown=1,
        **tls,
    )
    return uvicorn.Server(config)
