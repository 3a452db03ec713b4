"""The header of the PROXY protocol (v1 and v2), in which a load balancer names its client."""

import re
import struct
from collections.abc import Awaitable, Callable
from ipaddress import IPv4Address, IPv6Address, ip_address

Address = tuple[str, int]
Receive = Callable[[int], Awaitable[bytes]]
"""Receives exactly this number of bytes; raises EOFError at the end of the connection."""

_SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
_V1 = b"PROXY "
_MAX_V1 = 107
MAX_V2 = 2048
"""Maximum bytes after the fixed part of v2: the addresses, and TLS details of some senders."""

_PORT = rb"(0|[1-9][0-9]{0,4})"
_LINE = re.compile(
    rb"PROXY (?:UNKNOWN(?: [ -~]*)?|TCP([46]) ([0-9a-fA-F.:]+) ([0-9a-fA-F.:]+) %b %b)\r\n"
    % (_PORT, _PORT)
)
_LOCAL, _PROXY = 0x20, 0x21
_UNSPECIFIED, _TCP4, _TCP6 = 0x00, 0x11, 0x21


class BadProxyHeader(Exception):
    """A connection does not begin with a header of the PROXY protocol."""


async def read_header(receive: Receive) -> Address | None:
    """Reads the header of a connection and not a byte more; returns the client.

    None: the load balancer names no client, as for its own health checks. Raises BadProxyHeader,
    EOFError.
    """
    start = await receive(len(_SIGNATURE))
    if start == _SIGNATURE:
        command, family, size = struct.unpack("!BBH", await receive(4))
        if size > MAX_V2:
            raise BadProxyHeader(f"header has {size} bytes, at most {MAX_V2} are allowed")
        return _parse_v2(command, family, await receive(size))
    if not start.startswith(_V1):
        raise BadProxyHeader("connection does not begin with a header of the PROXY protocol")
    line = bytearray(start)
    while not line.endswith(b"\n") and len(line) < _MAX_V1:
        line += await receive(1)
    return _parse_v1(bytes(line))


def _parse_v1(line: bytes) -> Address | None:
    match = _LINE.fullmatch(line)
    if match is None:
        raise BadProxyHeader("header of version 1 is malformed")
    version, source, destination, source_port, destination_port = match.groups()
    if version is None:
        return None
    ports = int(source_port), int(destination_port)
    try:
        addresses = [ip_address(text.decode()) for text in (source, destination)]
    except ValueError:
        raise BadProxyHeader("header of version 1 has no IP address") from None
    if any(address.version != int(version) for address in addresses) or max(ports) > 0xFFFF:
        raise BadProxyHeader("header of version 1 is malformed")
    return _address_text(addresses[0]), ports[0]


def _parse_v2(command: int, family: int, addresses: bytes) -> Address | None:
    if command == _LOCAL:
        return None
    if command != _PROXY:
        raise BadProxyHeader(f"header of version 2 has the unknown command {command:#04x}")
    if family == _UNSPECIFIED:
        return None
    try:
        if family == _TCP4:
            source, _, port, _ = struct.unpack_from("!4s4sHH", addresses)
            return _address_text(IPv4Address(source)), port
        if family == _TCP6:
            source, _, port, _ = struct.unpack_from("!16s16sHH", addresses)
            return _address_text(IPv6Address(source)), port
    except struct.error:
        raise BadProxyHeader("header of version 2 is too short for its addresses") from None
    raise BadProxyHeader(f"header of version 2 names no TCP client (family {family:#04x})")


def _address_text(address: IPv4Address | IPv6Address) -> str:
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return str(mapped or address)
