"""A user who writes HTTP byte by byte."""

import asyncio
from dataclasses import dataclass

PATH = b"/k8s/clusters/dev"


@dataclass
class User:
    """A connection to the proxy."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def ask(self, request: bytes, *, head_request: bool = False) -> tuple[int, bytes, bytes]:
        """Send bytes and read one answer: status, head, body."""
        self.writer.write(request)
        return await self.answer(head_request=head_request)

    async def answer(self, *, head_request: bool = False) -> tuple[int, bytes, bytes]:
        """The next answer that has a final status and a length: status, head, body."""
        async with asyncio.timeout(10):
            head = await self.reader.readuntil(b"\r\n\r\n")
            lower = head.lower()
            body = b""
            if b"content-length:" in lower and not head_request:
                length = int(lower.split(b"content-length:")[1].split(b"\r\n")[0])
                body = await self.reader.readexactly(length)
        return int(head[9:12]), head, body

    async def rest(self) -> bytes:
        """Everything until the connection ends cleanly; ConnectionResetError if it does not."""
        async with asyncio.timeout(10):
            return await self.reader.read()


def request(
    method: bytes = b"GET",
    path: bytes = b"/api/v1/pods",
    *fields: bytes,
    token: bytes = b"ann-token",
    body: bytes = b"",
) -> bytes:
    """A request to the cluster `dev` with further header fields."""
    lines = [method + b" " + PATH + path + b" HTTP/1.1", b"Host: proxy"]
    if token:
        lines.append(b"Authorization: Bearer " + token)
    return b"\r\n".join([*lines, *fields, b"", body])
