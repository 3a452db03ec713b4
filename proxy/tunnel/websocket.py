"""The control plane's end of WebSockets that carry agents' connections (see
`core.links.websocket`).
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from socket import AF_INET, AF_INET6, SOCK_STREAM
from socket import socket as TcpSocket

import structlog
from starlette.routing import WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from core.links.websocket import WEBSOCKET_PATH, splice
from core.rpc.sockets import BridgedPeers

log = structlog.get_logger(__name__)

MAX_OPEN, MAX_PER_SOURCE = 10_000, 2_000
TRY_AGAIN_LATER = 1013


def agents_route(
    listener: tuple[str, int], bridged: BridgedPeers, max_per_source: int = MAX_PER_SOURCE
) -> WebSocketRoute:
    """Route that forwards WebSockets to the agents' listener at (host, port), which authenticates
    them.
    Each address may have at most `max_per_source` open. The listener closes connections without a
    call; it knows the addresses of the agents by `bridged`.
    """
    sockets = _AgentSockets(listener, bridged, max_per_source)
    return WebSocketRoute(WEBSOCKET_PATH, sockets.serve)


class _AgentSockets:
    """The open WebSockets of agents, counted by address."""

    def __init__(
        self, listener: tuple[str, int], bridged: BridgedPeers, max_per_source: int
    ) -> None:
        self._listener, self._bridged, self._max_per_source = listener, bridged, max_per_source
        self._open: Counter[str] = Counter()

    async def serve(self, socket: WebSocket) -> None:
        """Serves one agent's connection until it ends."""
        source = socket.client.host if socket.client else ""
        if self._open.total() >= MAX_OPEN or self._open[source] >= self._max_per_source:
            await socket.close(TRY_AGAIN_LATER, "too many agents are connected")
            return
        self._open[source] += 1
        try:
            await self._serve_socket(socket)
        finally:
            self._remove(source)

    def _remove(self, source: str) -> None:
        self._open[source] -= 1
        if not self._open[source]:
            del self._open[source]

    async def _serve_socket(self, socket: WebSocket) -> None:
        with contextlib.ExitStack() as bridge:
            try:
                reader, writer = await self._connect(socket, bridge)
            except OSError as error:
                log.warning("agents' listener not reached", why=error.strerror or str(error))
                await socket.close(TRY_AGAIN_LATER, "the agents' listener does not answer")
                return
            await socket.accept()
            messages = _ServerMessages(socket)
            await splice(messages, reader, writer)
            if not messages.disconnected:
                # Both sides may disconnect at the same time.
                with contextlib.suppress(WebSocketDisconnect):
                    await socket.close()

    async def _connect(
        self, socket: WebSocket, bridge: contextlib.ExitStack
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """Connects to the listener, which knows the agent's address before the first byte."""
        host = self._listener[0]
        local_socket = TcpSocket(AF_INET6 if ":" in host else AF_INET, SOCK_STREAM)
        try:
            local_socket.setblocking(False)
            local_socket.bind((host, 0))
            client = (socket.client.host, socket.client.port) if socket.client else ("unknown", 0)
            bridge.enter_context(self._bridged.bridging(local_socket.getsockname()[:2], client))
            await asyncio.get_running_loop().sock_connect(local_socket, self._listener)
            return await asyncio.open_connection(sock=local_socket)
        except BaseException:
            local_socket.close()
            raise


class _ServerMessages:
    """Implements `core.links.websocket.WebSocketMessages` over Starlette."""

    def __init__(self, socket: WebSocket) -> None:
        self._socket = socket
        self.disconnected = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while True:
                yield await self._socket.receive_bytes()
        except (WebSocketDisconnect, KeyError):
            # KeyError: a text message, which no agent sends.
            self.disconnected = True

    async def send(self, data: bytes) -> None:
        try:
            await self._socket.send_bytes(data)
        except WebSocketDisconnect as error:
            self.disconnected = True
            raise ConnectionResetError("the agent has disconnected") from error
