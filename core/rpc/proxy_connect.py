"""Connects sockets, directly or through an HTTP CONNECT proxy (RFC 9110, 9.3.6)."""

import asyncio
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from core.errors import Invalid, Unavailable

_MAX_RESPONSE_HEAD = 16 << 10
_ADDRESS_SECONDS = 4.0


async def connect_through_proxy(proxy: str, host: str, port: int) -> socket.socket:
    """Connects to `host:port` through `proxy`, an http URL.

    OSError: the proxy cannot be reached. Unavailable: it refuses. Invalid: not an http URL.
    """
    parts, there = _read(proxy)
    raw = await connect_directly(*there)
    try:
        await _ask(raw, parts, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        raw.close()
        raise
    return raw


def _read(proxy: str) -> tuple[SplitResult, tuple[str, int]]:
    """Parses the proxy URL. Raises Invalid without details, which may contain a password."""
    try:
        parts = urlsplit(proxy if "://" in proxy else f"http://{proxy}")
        if parts.scheme == "http" and parts.hostname:
            return parts, (parts.hostname, parts.port or 80)
    except ValueError:
        pass
    raise Invalid(
        "the proxy must be http://[user:password@]host:port with a percent-encoded password"
    )


async def connect_directly(host: str, port: int) -> socket.socket:
    """Connects to the first of the host's addresses that accepts. OSError: none does."""
    loop = asyncio.get_running_loop()
    failed: OSError = OSError(f"{host} has no address")
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(found, 1):
        # An unreachable address must not use up the time of the next ones.
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
        # Read no byte beyond the response: the next bytes belong to the target.
        piece = await loop.sock_recv(raw, 1)
        answer += piece
        if not piece or len(answer) > _MAX_RESPONSE_HEAD:
            raise Unavailable(f"the proxy {proxy.hostname} sent an unreadable response")
    words = bytes(answer).split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/1.") or not _is_well(words[1]):
        reason = b" ".join(words[1:])[:100].decode("ascii", "replace")
        raise Unavailable(f"the proxy {proxy.hostname} refused to connect: {reason}")


def _is_well(status: bytes) -> bool:
    """True for any 2xx status (RFC 9110, 9.3.6)."""
    return len(status) == 3 and status.isdigit() and status.startswith(b"2")
