"""A connected socket, by the way of an HTTP proxy where there is one (RFC 9110, 9.3.6)."""

import asyncio
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from fleet.errors import Invalid, Unavailable

_MOST_ANSWER = 16 << 10
_ADDRESS_SECONDS = 4.0


async def through(proxy: str, host: str, port: int) -> socket.socket:
    """Ask `proxy`, a URL of http, for a way to `host:port`.

    OSError: the proxy is not reached. Unavailable: it refuses. Invalid: it is no such URL.
    """
    parts, there = _read(proxy)
    raw = await reach(*there)
    try:
        await _ask(raw, parts, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        raw.close()
        raise
    return raw


def _read(proxy: str) -> tuple[SplitResult, tuple[str, int]]:
    """Its URL, host and port. Invalid, without saying why: it may be a piece of a password."""
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme == "http" and parts.hostname:
            return parts, (parts.hostname, parts.port or 80)
    except ValueError:
        pass
    raise Invalid("the proxy must be given as http://host:port, its password percent-encoded")


async def reach(host: str, port: int) -> socket.socket:
    """The first of the host's addresses that takes the connection. OSError: none does."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(f"{host} has no address")
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        # One that leads nowhere must not take the time of those behind it.
        patience = _ADDRESS_SECONDS if number < len(found) else None
        try:
            async with asyncio.timeout(patience):
                return await _connected(socket.socket(family, kind, protocol), address)
        except OSError as error:
            failed = error
    raise failed


async def _connected(raw: socket.socket, address: Any) -> socket.socket:
    try:
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw


async def _ask(raw: socket.socket, proxy: SplitResult, target: str) -> None:
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}")
    await loop.sock_sendall(raw, "\r\n".join([*lines, "", ""]).encode())
    answer = bytearray()
    while not answer.endswith(b"\r\n\r\n"):
        # Not a byte beyond the answer, which belongs to the target.
        piece = await loop.sock_recv(raw, 1)
        answer += piece
        if not piece or len(answer) > _MOST_ANSWER:
            raise Unavailable(f"the proxy {proxy.hostname} gave no answer that can be read")
    words = bytes(answer).split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not _is_well(words[1]):
        said = b" ".join(words[1:])[:100].decode("ascii", "replace")
        raise Unavailable(f"the proxy {proxy.hostname} refuses to connect: {said}")


def _is_well(status: bytes) -> bool:
    """Any of 2xx (RFC 9110, 9.3.6)."""
    return len(status) == 3 and status.isdigit() and status.startswith(b"2")
