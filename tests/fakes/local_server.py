"""A TCP server of a test, whose connections end with it."""

import asyncio
import contextlib
import ssl
from collections.abc import Awaitable, Callable
from typing import Self

from core.runtime.tasks import Tasks

Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
_TURNS_TO_ACCEPT = 4


class LocalServer:
    """Listens on a free port of 127.0.0.1 while its `async with` does.

    Runs `serve` for each connection, and closes the connection after it. The end cancels what still
    runs. `asyncio.Server.close` keeps accepted connections, and a task that is cancelled before its
    first step closes nothing: so the server closes them itself.
    """

    def __init__(
        self, serve: Serve, *, tls: ssl.SSLContext | None = None, limit: int = 1 << 16
    ) -> None:
        self._serve, self._tls, self._limit = serve, tls, limit
        self._tasks = Tasks("local server")
        self._writers: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server
        self.port = 0

    async def start(self) -> Self:
        self._server = await asyncio.start_server(
            self._accept, "127.0.0.1", 0, ssl=self._tls, limit=self._limit
        )
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Ends every connection, and takes none any more."""
        self._server.close()
        # A connection that was just accepted reaches `_accept` some turns later.
        for _ in range(_TURNS_TO_ACCEPT):
            await asyncio.sleep(0)
        writers = tuple(self._writers)
        self.cut()
        await self._tasks.stop()
        for writer in writers:
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    def cut(self) -> None:
        """Breaks every connection."""
        for writer in self._writers:
            writer.transport.abort()

    async def __aenter__(self) -> Self:
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        task = self._tasks.spawn("connection", self._run(reader, writer))
        task.add_done_callback(lambda _: self._end(writer))

    async def _run(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            await self._serve(reader, writer)

    def _end(self, writer: asyncio.StreamWriter) -> None:
        self._writers.discard(writer)
        writer.close()


async def copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Copies bytes until either side ends, then closes the writer."""
    try:
        with contextlib.suppress(OSError):
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
    finally:
        writer.close()


async def relay(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    port: int,
    host: str = "127.0.0.1",
    *,
    hello: bytes = b"",
) -> None:
    """Connects to the port, writes `hello`, and copies bytes both ways until both sides end.

    OSError: the port is closed.
    """
    there, back = await asyncio.open_connection(host, port)
    try:
        writer.write(hello)
        await asyncio.gather(copy(reader, back), copy(there, writer))
    finally:
        back.close()
