"""A CONNECT proxy (RFC 9110, 9.3.6) that asks for a password and notes where it was led."""

import asyncio
import base64
from typing import Self


class ConnectProxy:
    """Runs while its `async with` does. `targets` are the places asked for, in order."""

    def __init__(self, user: str = "user", password: str = "secret") -> None:
        self.targets: list[str] = []
        self._pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._login = f"{user}:{password}"
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def url(self) -> str:
        port = self._server.sockets[0].getsockname()[1]
        return f"http://{self._login}@127.0.0.1:{port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in tuple(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except (OSError, EOFError, asyncio.CancelledError):
            return
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        if method != "CONNECT" or f"Basic {self._pair}" not in head:
            writer.write(b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        self.targets.append(target)
        host, _, port = target.rpartition(":")
        there, back = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        try:
            await asyncio.gather(_carry(reader, back), _carry(there, writer))
        finally:
            back.close()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    if writer.can_write_eof():
        writer.write_eof()
