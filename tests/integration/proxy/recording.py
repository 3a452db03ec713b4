"""An API server's stand-in that keeps every byte it gets and answers what a test tells it."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core.runtime.tasks import Tasks
from syncagent.tunnel.upstream import Upstream

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
Script = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class RecordingUpstream:
    """`heads`: each request head as it came; `bodies`: the bytes behind it, where they end.

    `answer` is sent to each request; `script`, if set, takes over the connection after its first
    head.
    """

    port: int = 0
    heads: list[bytes] = field(default_factory=list)
    bodies: list[bytes] = field(default_factory=list)
    connections: int = 0
    answer: bytes = OK
    close_after: bool = False
    script: Script | None = None
    tasks: Tasks = field(default_factory=lambda: Tasks("recording upstream"))

    @property
    def upstream(self) -> Upstream:
        return Upstream("127.0.0.1", self.port, None, _token)

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A new connection; it ends with the stand-in."""
        self.connections += 1
        self.tasks.spawn("connection", self._serve(reader, writer))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
                while await self._serve_one(reader, writer):
                    pass
        finally:
            writer.close()

    async def _serve_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        head = await reader.readuntil(b"\r\n\r\n")
        self.heads.append(head)
        if self.script is not None:
            await self.script(reader, writer)
            return False
        self.bodies.append(await _body(head, reader))
        writer.write(self.answer)
        return not self.close_after


@asynccontextmanager
async def recording_upstream() -> AsyncGenerator[RecordingUpstream, None]:
    """A stand-in that listens."""
    recorder = RecordingUpstream()
    server = await asyncio.start_server(recorder.accept, "127.0.0.1", 0, limit=1 << 20)
    recorder.port = server.sockets[0].getsockname()[1]
    try:
        yield recorder
    finally:
        server.close()
        await recorder.tasks.stop()


async def _body(head: bytes, reader: asyncio.StreamReader) -> bytes:
    lower = head.lower()
    if b"\r\ntransfer-encoding: chunked" in lower:
        return await reader.readuntil(b"0\r\n\r\n")
    if b"\r\ncontent-length:" in lower:
        length = int(lower.split(b"\r\ncontent-length:")[1].split(b"\r\n")[0])
        return await reader.readexactly(length)
    return b""


async def _token() -> str:
    return "service-account-token"
