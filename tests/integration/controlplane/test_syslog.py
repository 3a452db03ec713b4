"""Audit rows and notifications to syslog servers: TCP as RFC 6587 counts, UDP, TLS."""

import asyncio
import ssl
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from controlplane.platform.outbound.outbound import GuardedSender
from core.errors import Unavailable
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority

MESSAGES = [
    b"<109>1 - hub towline - change - {}",
    b"<109>1 - hub towline - change - " + b"x" * 9000,
]


@asynccontextmanager
async def listening(
    tls: ssl.SSLContext | None = None,
) -> AsyncGenerator[tuple[int, asyncio.Queue[bytes]], None]:
    """A port, and all that came by each of its connections."""
    got: asyncio.Queue[bytes] = asyncio.Queue()

    async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        got.put_nowait(await reader.read())

    async with LocalServer(take, tls=tls) as server:
        yield server.port, got


async def test_messages_by_tcp_are_counted() -> None:
    outward = GuardedSender(("127.0.0.0/8",))
    async with listening() as (port, got):
        await outward.syslog(f"syslog+tcp://127.0.0.1:{port}", MESSAGES)
        said = await asyncio.wait_for(got.get(), 60)
    assert said == b"".join(b"%d %s" % (len(one), one) for one in MESSAGES)


async def test_messages_by_udp_are_datagrams() -> None:
    loop, got = asyncio.get_running_loop(), asyncio.Queue()

    class Taking(asyncio.DatagramProtocol):
        def datagram_received(self, data: bytes, addr: tuple[str, int]) -> None:
            got.put_nowait(data)

    transport, _ = await loop.create_datagram_endpoint(Taking, ("127.0.0.1", 0))
    port = transport.get_extra_info("sockname")[1]
    await GuardedSender(("127.0.0.0/8",)).syslog(f"syslog+udp://127.0.0.1:{port}", MESSAGES)
    assert [await asyncio.wait_for(got.get(), 60) for _ in MESSAGES] == MESSAGES
    transport.close()


async def test_a_certificate_that_is_not_trusted_gets_nothing(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    authority, other = TestAuthority(tmp_path), TestAuthority(tmp_path / "other")
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.certificate, authority.key)
    async with listening(tls) as (port, got):
        url = f"syslog+tls://127.0.0.1:{port}"
        with pytest.raises(Unavailable):
            await GuardedSender(("127.0.0.0/8",), other.ca).syslog(url, MESSAGES)
        assert got.empty()
        await GuardedSender(("127.0.0.0/8",), authority.ca).syslog(url, MESSAGES)
        assert (await asyncio.wait_for(got.get(), 60)).endswith(MESSAGES[-1])


async def test_a_private_server_is_refused_unless_allowed() -> None:
    with pytest.raises(Unavailable, match="private address"):
        await GuardedSender().syslog("syslog+tcp://localhost:601", MESSAGES)


async def test_an_unreachable_syslog_server_is_named_by_host() -> None:
    with pytest.raises(Unavailable, match=r"127\.0\.0\.1 cannot be reached"):
        await GuardedSender(("127.0.0.0/8",)).syslog("syslog+tcp://127.0.0.1:1", MESSAGES)
