"""Both ends of a link on this machine, over each transport, with a line that can be stopped."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import grpc
import uvicorn
from fleet.links.grpc_stream import METHOD, GrpcLink
from starlette.applications import Starlette

from fleet.links.websocket import Pipe
from fleet.mux.budget import Budget
from fleet.mux.codec import Buffer, Hello
from fleet.mux.link import Link
from fleet.mux.mux import Mux, MuxSettings
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from proxy.tunnel.websocket import agents_route
from tests.fakes.tunnel import RecordingMuxOwner

SETTINGS = MuxSettings(window=4 << 20)
SERVICE = METHOD.split("/")[1]


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


class Line:
    """A TCP relay to a port of this machine."""

    def __init__(self) -> None:
        self.port = 0
        self._going = asyncio.Event()
        self._going.set()
        self._tasks = Tasks("line")
        self._writers: list[asyncio.StreamWriter] = []
        self._server: asyncio.Server

    async def start(self, port: int) -> None:
        """Lead what connects to `port`."""

        async def lead(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            onward = await asyncio.open_connection("127.0.0.1", port)
            self._writers += [writer, onward[1]]
            self._tasks.spawn("there", self._copy(reader, onward[1], stoppable=False))
            self._tasks.spawn("back", self._copy(onward[0], writer, stoppable=True))

        self._server = await asyncio.start_server(lead, "127.0.0.1", 0, limit=16 << 10)
        self.port = self._server.sockets[0].getsockname()[1]

    def pause(self) -> None:
        """Nothing comes back from there any more, and nobody is told."""
        self._going.clear()

    def go_on(self) -> None:
        """End a pause."""
        self._going.set()

    def cut(self) -> None:
        """Break every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def stop(self) -> None:
        """Break every connection, and take none any more."""
        self._server.close()
        self.cut()
        await self._tasks.stop()

    async def _copy(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, stoppable: bool
    ) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(16 << 10):
                if stoppable:
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


def _mux(link: Link, owner: RecordingMuxOwner, clock: Clock, *, hub: bool) -> Mux:
    return Mux(
        link,
        owner,
        hub=hub,
        hello=Hello((b"h" if hub else b"a") * 16, SETTINGS.window),
        clock=clock,
        timers=asyncio.get_running_loop(),
        budget=Budget(64 << 20),
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
    """A gRPC server whose only call is the link."""

    clock: Clock
    mux: Mux | None = None
    owner: RecordingMuxOwner = field(default_factory=RecordingMuxOwner)

    async def serve(self, _: Any, context: Any) -> None:
        link = GrpcLink(context)
        self.mux = _mux(link, self.owner, self.clock, hub=True)
        await link.carry(self.mux, self.clock)

    async def start(self, stack: AsyncExitStack) -> int:
        server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
        method = grpc.stream_stream_rpc_method_handler(self.serve)
        handler = grpc.method_handlers_generic_handler(SERVICE, {"Tunnel": method})
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()
        stack.push_async_callback(server.stop, 0)
        return port


@asynccontextmanager
async def grpc_ends(clock: Clock, *, websocket: bool = False) -> AsyncGenerator[Ends]:
    """Both ends over gRPC, through a WebSocket if asked for."""
    async with AsyncExitStack() as stack:
        served, line, tasks = _Served(clock), Line(), Tasks("ends")
        port = await served.start(stack)
        stack.push_async_callback(tasks.stop)
        if websocket:
            port = await _serve_websocket(("127.0.0.1", port), stack, tasks)
        await line.start(port)
        stack.push_async_callback(line.stop)
        port = line.port
        if websocket:
            pipe = Pipe(f"ws://127.0.0.1:{line.port}")
            tasks.spawn("pipe", pipe.run())
            port = pipe.port
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.enable_http_proxy", 0)]
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{port}", options)
        stack.push_async_callback(channel.close)
        call = channel.stream_stream(METHOD)()
        stack.callback(call.cancel)
        link, owner = GrpcLink(call), RecordingMuxOwner()
        agent = _mux(link, owner, clock, hub=False)
        tasks.spawn("agent", _carry(link, agent, clock, call))
        async with asyncio.timeout(10):
            while owner.ready is None or served.owner.ready is None:
                await asyncio.sleep(0.01)
        assert served.mux is not None
        yield Ends(served.mux, agent, served.owner, owner, line.pause, line.go_on, line.cut)


async def _carry(link: GrpcLink, mux: Mux, clock: Clock, call: Any) -> None:
    """As an agent does: with the link the call ends, whatever state it is in."""
    try:
        await link.carry(mux, clock)
    finally:
        call.cancel()


async def _serve_websocket(listener: tuple[str, int], stack: AsyncExitStack, tasks: Tasks) -> int:
    app = Starlette(routes=[agents_route(listener)])
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
