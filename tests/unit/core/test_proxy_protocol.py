"""Headers of the PROXY protocol: read exactly, or refused."""

import struct
from ipaddress import IPv4Address, IPv6Address

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from core.proxy_protocol import MAX_V2, Address, BadProxyHeader, read_header
from tests.fuzz.targets import proxy_header

SIGNATURE = b"\r\n\r\n\0\r\nQUIT\n"
PORTS = st.integers(0, 0xFFFF)
V4 = b"\xcb\x00\x71\x09" + b"\x0a\x00\x00\x01" + struct.pack("!HH", 4711, 443)


class Connection:
    """A connection that has these bytes and then ends."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    async def receive(self, size: int) -> bytes:
        if len(self.data) < size:
            raise EOFError
        received, self.data = self.data[:size], self.data[size:]
        return received


async def read(data: bytes) -> Address | None:
    """The client that a header names; all bytes after the header are left."""
    connection = Connection(data + b"after")
    client = await read_header(connection.receive)
    assert connection.data == b"after"
    return client


def v2(rest: bytes, command: int = 0x21, family: int = 0x11) -> bytes:
    return SIGNATURE + struct.pack("!BBH", command, family, len(rest)) + rest


@given(st.ip_addresses(v=4), st.ip_addresses(v=4), PORTS, PORTS)
async def test_both_versions_name_an_ipv4_client(
    client: IPv4Address, server: IPv4Address, port: int, server_port: int
) -> None:
    line = f"PROXY TCP4 {client} {server} {port} {server_port}\r\n".encode()
    rest = client.packed + server.packed + struct.pack("!HH", port, server_port)
    for header in (line, v2(rest), v2(rest + b"\x03\x00\x04abcd")):
        assert await read(header) == (str(client), port)


@example(IPv6Address("::ffff:203.0.113.9"), IPv6Address("::1"), 1)
@given(st.ip_addresses(v=6), st.ip_addresses(v=6), PORTS)
async def test_both_versions_name_an_ipv6_client(
    client: IPv6Address, server: IPv6Address, port: int
) -> None:
    """An IPv4 address in the form of IPv6 is the IPv4 address, as in `X-Forwarded-For`."""
    line = f"PROXY TCP6 {client} {server} {port} 1\r\n".encode()
    rest = client.packed + server.packed + struct.pack("!HH", port, 1)
    for header in (line, v2(rest, family=0x21)):
        assert await read(header) == (str(client.ipv4_mapped or client), port)


@pytest.mark.parametrize(
    "header",
    [
        b"PROXY UNKNOWN\r\n",
        b"PROXY UNKNOWN ffff::1 ffff::2 65535 65535\r\n",
        v2(b"", command=0x20, family=0x00),
        v2(V4, command=0x20),
        v2(b"x" * MAX_V2, family=0x00),
    ],
)
async def test_a_load_balancer_may_name_no_client(header: bytes) -> None:
    assert await read(header) is None


@pytest.mark.parametrize(
    "header",
    [
        b"GET / HTTP/1.1\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 TLS",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443 \r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 04711 443\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 65536 443\r\n",
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711\r\n",
        b"PROXY TCP4 ::1 ::1 4711 443\r\n",
        b"PROXY TCP6 203.0.113.9 10.0.0.1 4711 443\r\n",
        b"PROXY TCP4 203.0.113 10.0.0.1 4711 443\r\n",
        b"PROXY UDP4 203.0.113.9 10.0.0.1 4711 443\r\n",
        b"PROXY UNKNOWN " + b"x" * 200 + b"\r\n",
        v2(V4, command=0x11),
        v2(V4, command=0x22),
        v2(V4, family=0x12),
        v2(V4, family=0x31),
        v2(V4[:-1]),
        v2(V4, family=0x21),
        v2(b"x" * (MAX_V2 + 1)),
    ],
)
async def test_all_else_is_refused(header: bytes) -> None:
    with pytest.raises(BadProxyHeader):
        await read(header)


@given(st.binary(max_size=20), st.binary(max_size=80))
async def test_any_bytes_are_read_or_refused(start: bytes, rest: bytes) -> None:
    for begin in (b"", b"PROXY ", b"PROXY TCP4 ", SIGNATURE, SIGNATURE + b"\x21\x11\x00"):
        proxy_header(begin + start + rest)
