"""A CONNECT proxy (RFC 9110, 9.3.6) that asks for a password and notes where it was led."""

import asyncio
import base64

from tests.fakes.local_server import LocalServer, relay


class ConnectProxy(LocalServer):
    """Runs while its `async with` does. `targets` are the places asked for, in order; only the
    proxy can resolve the hosts of `addresses`."""

    def __init__(self, user: str = "user", password: str = "secret") -> None:
        super().__init__(self._open)
        self.targets: list[str] = []
        self.addresses: dict[str, str] = {}
        self._pair = base64.b64encode(f"{user}:{password}".encode()).decode()
        self._login = f"{user}:{password}"

    @property
    def url(self) -> str:
        return f"http://{self._login}@127.0.0.1:{self.port}"

    async def _open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        method, target, _ = head.split(" ", 2)
        if method != "CONNECT" or f"Basic {self._pair}" not in head:
            writer.write(b"HTTP/1.1 407 no\r\nContent-Length: 0\r\n\r\n")
            await writer.drain()
            return
        self.targets.append(target)
        host, _, port = target.rpartition(":")
        host = self.addresses.get(host, host)
        await relay(reader, writer, int(port), host, hello=b"HTTP/1.1 200 OK\r\n\r\n")
