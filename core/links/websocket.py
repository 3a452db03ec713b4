"""The agents' connection over a WebSocket, for networks that allow only HTTPS.

The agent's gRPC connection, TLS included, goes through one WebSocket on the control plane's
HTTPS port. Sync, Fetch and Tunnel work unchanged, and proxies in between see neither token nor
data. The URL is opened through the proxy in HTTPS_PROXY, unless NO_PROXY lists the host.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Protocol
from urllib.parse import urlsplit, urlunsplit

import aiohttp
import structlog

from core.errors import Invalid
from core.runtime.tasks import Tasks

log = structlog.get_logger(__name__)

WEBSOCKET_PATH = "/ext/v1/agent/tunnel"
MAX_WEBSOCKET_MESSAGE = 64 << 10
OPEN_SECONDS = 15.0
_SCHEMES = {"wss": "https", "ws": "http"}


class WebSocketMessages(Protocol):
    """One end of an open WebSocket."""

    def __aiter__(self) -> AsyncIterator[bytes]:
        """Yields received messages until the peer closes or the connection is lost."""
        ...

    def send(self, data: bytes, /) -> Awaitable[None]:
        """Sends a message and waits for room for the next. OSError: the connection is lost."""
        ...


async def splice(
    messages: WebSocketMessages, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    """Copies bytes both ways until either side ends, then closes the writer."""
    tasks = Tasks("websocket")
    work = [
        tasks.spawn("in", _from_messages(messages, writer)),
        tasks.spawn("out", _to_messages(reader, messages)),
    ]
    try:
        await asyncio.wait(work, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await tasks.stop()
        writer.close()


async def _from_messages(messages: WebSocketMessages, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        async for data in messages:
            writer.write(data)
            await writer.drain()


async def _to_messages(reader: asyncio.StreamReader, messages: WebSocketMessages) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(MAX_WEBSOCKET_MESSAGE):
            await messages.send(data)


class WebSocketForwarder:
    """A local port that leads through a WebSocket to the control plane's listener for agents.

    `url` is `wss://host[:port]` (`ws://` only for tests), and `tls` returns the context that
    verifies the HTTPS port of a new connection. Raises Invalid for any other URL. The port listens
    at once and serves while `run` runs.
    """

    def __init__(self, url: str, tls: Callable[[], ssl.SSLContext] | None = None) -> None:
        self._url = _endpoint(url)
        self._tls = tls
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._socket.getsockname()[1]
        self._tasks = Tasks("pipe")

    async def run(self) -> None:
        """Serves until cancelled."""
        timeout = aiohttp.ClientTimeout(total=None, connect=OPEN_SECONDS)
        async with aiohttp.ClientSession(trust_env=True, timeout=timeout) as session:

            def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = self._tasks.spawn("connection", self._serve(session, reader, writer))
                # A task that is cancelled before its first step closes nothing itself.
                task.add_done_callback(lambda _: writer.close())

            server = await asyncio.start_server(accept, sock=self._socket)
            try:
                await server.serve_forever()
            finally:
                await self._tasks.stop()

    async def _serve(
        self,
        session: aiohttp.ClientSession,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        try:
            async with session.ws_connect(
                self._url,
                ssl=self._tls() if self._tls else True,
                max_msg_size=1 << 20,
                autoping=True,
            ) as socket:
                await splice(_ClientMessages(socket), reader, writer)
        except (aiohttp.ClientError, OSError) as error:
            log.warning(
                "cannot reach the control plane by WebSocket", url=self._url, why=str(error)
            )


class _ClientMessages:
    """Implements `WebSocketMessages` with aiohttp."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for message in self._socket:
            if message.type is aiohttp.WSMsgType.BINARY:
                yield message.data

    async def send(self, data: bytes) -> None:
        await self._socket.send_bytes(data)


def _endpoint(url: str) -> str:
    parts = urlsplit(url)
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise Invalid(f"{url!r} is not a wss:// URL of a control plane")
    return urlunsplit((scheme, parts.netloc, WEBSOCKET_PATH, "", ""))
