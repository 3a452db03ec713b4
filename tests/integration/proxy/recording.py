"""An API server's stand-in that keeps every byte it gets and answers what a test tells it."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from syncagent.tunnel.upstream import Upstream
from tests.fakes.local_server import LocalServer

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
    open: int = 0
    """Number of connections that are open now."""
    answer: bytes = OK
    close_after: bool = False
    script: Script | None = None

    @property
    def upstream(self) -> Upstream:
        return Upstream("127.0.0.1", self.port, None, _token)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answers a connection."""
        self.connections += 1
        self.open += 1
        try:
            while await self._serve_one(reader, writer):
                pass
        finally:
            self.open -= 1

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
    async with LocalServer(recorder.serve, limit=1 << 20) as server:
        recorder.port = server.port
        yield recorder


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
