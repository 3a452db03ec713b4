"""What API servers behind the proxy say, for several tests."""

import asyncio
import contextlib

EVENT = b'{"type":"ADDED"}\n'
ENDLESS = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"


async def watching(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """One event, then nothing until the client is gone."""
    writer.write(ENDLESS + b"%x\r\n%s\r\n" % (len(EVENT), EVENT))
    with contextlib.suppress(ConnectionError):
        await asyncio.sleep(30)


async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Begins a response, and never ends it."""
    writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100000\r\n\r\nbegun")
    await reader.read()
