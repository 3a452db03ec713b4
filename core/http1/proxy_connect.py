"""Connects sockets, directly or through an HTTP CONNECT proxy (RFC 9110, 9.3.6)."""

import asyncio
import socket
from base64 import b64encode
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from core.errors import Invalid, Unavailable

_MAX_RESPONSE_HEAD = 16 << 10
ADDRESS_SECONDS = 4.0


async def connect_through_proxy(proxy: str, host: str, port: int) -> socket.socket:
    """Connects to `host:port` through `proxy`, an http URL.

    OSError: the proxy cannot be reached. Unavailable: it refuses. Invalid: not an http URL.
    """
    parts, proxy_address = _parse_proxy(proxy)
    raw = await connect_directly(*proxy_address)
    try:
        await _request_tunnel(raw, parts, f"[{host}]:{port}" if ":" in host else f"{host}:{port}")
    except BaseException:
        raw.close()
        raise
    return raw


def _parse_proxy(proxy: str) -> tuple[SplitResult, tuple[str, int]]:
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
    last_error: OSError = OSError(f"{host} has no address")
    addresses = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    for number, (family, kind, protocol, _, address) in enumerate(addresses, 1):
        # An unreachable address must not use up the time of the next ones.
        timeout_seconds = ADDRESS_SECONDS if number < len(addresses) else None
        try:
            async with asyncio.timeout(timeout_seconds):
                return await _connect_socket(socket.socket(family, kind, protocol), address)
        except OSError as error:
            last_error = error
    raise last_error


async def _connect_socket(raw: socket.socket, address: Any) -> socket.socket:
    try:
        raw.setblocking(False)
        await asyncio.get_running_loop().sock_connect(raw, address)
    except BaseException:
        raw.close()
        raise
    return raw


async def _request_tunnel(raw: socket.socket, proxy: SplitResult, target: str) -> None:
    loop = asyncio.get_running_loop()
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if proxy.username is not None:
        pair = f"{unquote(proxy.username)}:{unquote(proxy.password or '')}"
        lines.append(f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}")
    await loop.sock_sendall(raw, "\r\n".join([*lines, "", ""]).encode())
    response = bytearray()
    while not response.endswith(b"\r\n\r\n"):
        # Read no byte beyond the response: the next bytes belong to the target.
        byte = await loop.sock_recv(raw, 1)
        response += byte
        if not byte or len(response) > _MAX_RESPONSE_HEAD:
            raise Unavailable(f"the proxy {proxy.hostname} sent an unreadable response")
    status_fields = bytes(response).split(b"\r\n", 1)[0].split(b" ", 2)
    if (
        len(status_fields) < 2
        or not status_fields[0].startswith(b"HTTP/1.")
        or not _is_success(status_fields[1])
    ):
        reason = b" ".join(status_fields[1:])[:100].decode("ascii", "replace")
        raise Unavailable(f"the proxy {proxy.hostname} refused to connect: {reason}")


def _is_success(status: bytes) -> bool:
    """True for any 2xx status (RFC 9110, 9.3.6)."""
    return len(status) == 3 and status.isdigit() and status.startswith(b"2")
