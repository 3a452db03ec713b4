"""Both ends of a link on this machine, over each transport, with a line that can be stopped."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

import uvicorn
from starlette.applications import Starlette

from core.links.base_link import BaseLink
from core.links.call_link import make_call_link
from core.links.heartbeat import Heartbeat
from core.links.websocket import WebSocketForwarder
from core.mux.budget import ReceiveBudget
from core.mux.codec import Buffer, Hello
from core.mux.link import MuxLink
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.rpc.calls import Call, CallServer, Handler, ServerLimits
from core.rpc.grpcio import GrpcioServer
from core.rpc.http2_server import Http2Server
from core.rpc.implementations import GrpcImplementation
from core.rpc.methods import TUNNEL
from core.rpc.sockets import BridgedPeers
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from proxy.tunnel.websocket import agents_route
from syncagent.link.channel import Endpoint
from tests.fakes.local_server import LocalServer, copy
from tests.fakes.tunnel import RecordingMuxOwner

SETTINGS = MuxSettings(window=4 << 20)


@dataclass
class Ends:
    """A link's two ends. `pause` and `go_on` stop what the hub sends; `cut` ends all abruptly."""

    hub: Mux
    agent: Mux
    hub_owner: RecordingMuxOwner
    agent_owner: RecordingMuxOwner
    pause: Callable[[], None]
    go_on: Callable[[], None]
    cut: Callable[[], None]


class Line(LocalServer):
    """A TCP relay to a port of this machine."""

    def __init__(self, target: int) -> None:
        super().__init__(self._lead, limit=16 << 10)
        self._target = target
        self._onward: set[asyncio.StreamWriter] = set()
        self._going = asyncio.Event()
        self._going.set()

    def pause(self) -> None:
        """Cuts the link silently: nothing arrives any more, and no side is notified."""
        self._going.clear()

    def go_on(self) -> None:
        """End a pause."""
        self._going.set()

    def cut(self) -> None:
        """Break every connection."""
        super().cut()
        for back in self._onward:
            back.transport.abort()

    async def _lead(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection("127.0.0.1", self._target)
        self._onward.add(back)
        try:
            await asyncio.gather(copy(reader, back), self._copy(there, writer))
        finally:
            self._onward.discard(back)
            back.close()

    async def _copy(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(16 << 10):
                await self._going.wait()
                writer.write(data)
                await writer.drain()
        writer.close()


class LoopLink:
    """One end of a link in memory; a message arrives in a later turn of the loop."""

    def __init__(self) -> None:
        self.other: Mux
        self.mux: Mux
        self.peer: LoopLink
        self.blocked = self.paused = self.ended = False
        self._message: bytes | None = None

    def send(self, buffers: Sequence[Buffer]) -> None:
        self.blocked = True
        self._message = b"".join(buffers)
        asyncio.get_running_loop().call_soon(self.deliver)

    def deliver(self) -> None:
        """The message on its way arrives, unless the line is stopped."""
        if self.paused or self._message is None or self.ended:
            return
        message, self._message, self.blocked = self._message, None, False
        self.other.on_message(message)
        self.mux.on_drain()

    def close(self, reason: str) -> None:
        if not self.ended:
            self.ended = self.peer.ended = True
            asyncio.get_running_loop().call_soon(self.other.on_closed, "the far side ended it")


def _mux(link: MuxLink, owner: RecordingMuxOwner, clock: Clock, *, hub: bool) -> Mux:
    return Mux(
        link,
        owner,
        hub=hub,
        hello=Hello((b"h" if hub else b"a") * 16, SETTINGS.window),
        time=MuxTime(clock, asyncio.get_running_loop()),
        budget=ReceiveBudget(64 << 20),
        settings=SETTINGS,
    )


@asynccontextmanager
async def memory_ends(clock: Clock) -> AsyncGenerator[Ends]:
    """Both ends in memory."""
    links, owners = (LoopLink(), LoopLink()), (RecordingMuxOwner(), RecordingMuxOwner())
    hub, agent = links
    hub.peer, agent.peer = agent, hub
    hub.mux, agent.mux = (
        _mux(link, owner, clock, hub=link is hub) for link, owner in zip(links, owners, strict=True)
    )
    hub.other, agent.other = agent.mux, hub.mux
    tasks = Tasks("memory link")

    async def beat() -> None:
        while True:
            await clock.sleep(1.0)
            hub.mux.beat()

    def pause() -> None:
        hub.paused = True

    def go_on() -> None:
        hub.paused = False
        hub.deliver()

    def cut() -> None:
        hub.ended = agent.ended = True
        hub.mux.on_closed("cut")
        agent.mux.on_closed("cut")

    tasks.spawn("beat", beat())
    while not all(owner.ready for owner in owners):
        await asyncio.sleep(0)
    try:
        yield Ends(hub.mux, agent.mux, *owners, pause, go_on, cut)
    finally:
        await tasks.stop()


@dataclass
class _Served:
    """Handler of the only call: the hub's end."""

    clock: Clock
    mux: Mux | None = None
    owner: RecordingMuxOwner = field(default_factory=RecordingMuxOwner)

    async def serve(self, call: Call) -> None:
        link = make_call_link(call)
        self.mux = _mux(link, self.owner, self.clock, hub=True)
        await link.carry(self.mux, Heartbeat(self.clock))


def server_of(
    wire: GrpcImplementation, handlers: Mapping[str, Handler], clock: Clock
) -> CallServer:
    """A server by either wire."""
    limits = ServerLimits()
    if wire is GrpcImplementation.GRPCIO:
        return GrpcioServer(handlers, limits)
    return Http2Server(handlers, limits, clock)


@asynccontextmanager
async def call_ends(
    clock: Clock, hub: GrpcImplementation, agent: GrpcImplementation, *, websocket: bool = False
) -> AsyncGenerator[Ends]:
    """Both ends over a call, each by its wire, through a WebSocket if asked for."""
    async with AsyncExitStack() as stack:
        served, tasks = _Served(clock), Tasks("ends")
        server = server_of(hub, {TUNNEL: served.serve}, clock)
        port = await server.start(("127.0.0.1", 0), None)
        stack.push_async_callback(server.stop)
        stack.push_async_callback(tasks.stop)
        if websocket:
            port = await _serve_websocket(("127.0.0.1", port), stack, tasks)
        line = await stack.enter_async_context(Line(port))
        port = line.port
        if websocket:
            pipe = WebSocketForwarder(f"ws://127.0.0.1:{line.port}")
            tasks.spawn("pipe", pipe.run())
            port = pipe.port
        channel = Endpoint(f"http://127.0.0.1:{port}", "", wire=agent).connect(clock)
        stack.push_async_callback(channel.close)
        call = await channel.call(TUNNEL, ())
        stack.callback(call.cancel)
        link, owner = make_call_link(call), RecordingMuxOwner()
        mux = _mux(link, owner, clock, hub=False)
        tasks.spawn("agent", _carry(link, mux, clock, call))
        async with asyncio.timeout(10):
            while owner.ready is None or served.owner.ready is None:
                await asyncio.sleep(0.01)
        assert served.mux is not None
        yield Ends(served.mux, mux, served.owner, owner, line.pause, line.go_on, line.cut)


async def _carry(link: BaseLink, mux: Mux, clock: Clock, call: Call) -> None:
    """Like an agent: with the link the call ends, whatever state it is in."""
    try:
        await link.carry(mux, Heartbeat(clock))
    finally:
        call.cancel()


async def _serve_websocket(listener: tuple[str, int], stack: AsyncExitStack, tasks: Tasks) -> int:
    app = Starlette(routes=[agents_route(listener, BridgedPeers())])
    config = uvicorn.Config(
        app, port=0, ws="wsproto", lifespan="off", log_config=None, timeout_graceful_shutdown=1
    )
    server = uvicorn.Server(config)
    serving = tasks.spawn("serve", server.serve())
    while not server.started:
        await asyncio.sleep(0.01)

    async def stop() -> None:
        server.should_exit = True
        await asyncio.wait({serving}, timeout=5)

    stack.push_async_callback(stop)
    return server.servers[0].sockets[0].getsockname()[1]
