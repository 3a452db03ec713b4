"""HTTP proxies that answer otherwise than they should when asked for a way."""

import asyncio
from base64 import b64encode
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

import pytest

from core.errors import Invalid, Unavailable
from core.http1.proxy_connect import connect_through_proxy
from core.rpc.calls import CallFailed, CallStatus
from core.rpc.http2_channel import CallTarget, Http2Channel
from core.runtime.clock import SystemClock
from tests.fakes.local_server import LocalServer

PASSWORD = "canary-" + "12ab" + "-swordfish"


class AnsweringProxy:
    """Says the same to everybody, and notes what it was asked; `ends` if it then closes."""

    def __init__(self, answer: bytes, *, ends: bool) -> None:
        self.answer, self.ends = answer, ends
        self.heads: list[str] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        writer.write(self.answer)
        if not self.ends:
            await asyncio.Event().wait()


@asynccontextmanager
async def proxy(answer: bytes, *, ends: bool = False) -> AsyncGenerator[tuple[AnsweringProxy, str]]:
    """The proxy, and its `host:port`."""
    proxy = AnsweringProxy(answer, ends=ends)
    async with LocalServer(proxy.serve) as server:
        yield proxy, f"127.0.0.1:{server.port}"


@pytest.mark.parametrize(
    ("answer", "ends", "text"),
    [
        (b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n", False, "407 Proxy Auth"),
        (b"HTTP/1.0 502 Bad Gateway\r\nVia: a\r\n\r\n", False, "502 Bad Gateway"),
        (b"HTTP/1.1 302 Found\r\nLocation: http://login\r\n\r\n", False, "302 Found"),
        (b"HTTP/1.1 100 Continue\r\n\r\n", False, "100"),
        (b"HTTP/1.1 200", True, "unreadable response"),
        (b"", True, "unreadable response"),
        (b"HTTP/1.1 200 OK\r\n" + b"x: y\r\n" * 4000, False, "unreadable response"),
        (b"x" * 20_000, False, "unreadable response"),
        (b"\x00\xff\r\n\r\n", False, "refused to connect"),
        (b"200 OK HTTP/1.1\r\n\r\n", False, "refused to connect"),
        (b"HTTP/1.1 2000 OK\r\n\r\n", False, "refused to connect"),
        (b"\r\n\r\n", False, "refused to connect"),
    ],
)
async def test_any_other_proxy_response_ends_the_connection_with_an_error(
    answer: bytes, ends: bool, text: str
) -> None:
    """It names the proxy, and never what we have said to it."""
    async with proxy(answer, ends=ends) as (asked, place), asyncio.timeout(20):
        with pytest.raises(Unavailable, match=text) as refused:
            await connect_through_proxy(f"http://user:{PASSWORD}@{place}", "hub", 443)
        assert "127.0.0.1" in refused.value.message and PASSWORD not in refused.value.message
        assert len(asked.heads) == 1


@pytest.mark.parametrize("status", [b"200 OK", b"200", b"204 Nothing"])
async def test_bytes_after_the_proxy_response_belong_to_the_target(status: bytes) -> None:
    """Not one byte of it is taken."""
    async with proxy(b"HTTP/1.1 " + status + b"\r\nA: b\r\n\r\nhello", ends=True) as (_, place):
        with await connect_through_proxy(place, "hub", 443) as raw:
            assert await asyncio.get_running_loop().sock_recv(raw, 100) == b"hello"


@pytest.mark.parametrize(
    ("login", "pair"),
    [
        ("user:secret@", "user:secret"),
        ("us%40er:p%3A%2F%25@", "us@er:p:/%"),
        ("gr%C3%BCn:%C3%9F@", "grün:ß"),
        ("user@", "user:"),
        ("user:a%0D%0AB%3A%20c@", "user:a\r\nB: c"),
        ("", None),
    ],
)
@pytest.mark.parametrize(
    ("host", "target"), [("hub.example", "hub.example:8443"), ("fd00::1", "[fd00::1]:8443")]
)
async def test_the_proxy_receives_connect_with_credentials(
    login: str, pair: str | None, host: str, target: str
) -> None:
    async with proxy(b"HTTP/1.1 200 OK\r\n\r\n") as (asked, place):
        (await connect_through_proxy(f"http://{login}{place}", host, 8443)).close()
    lines = [f"CONNECT {target} HTTP/1.1", f"Host: {target}"]
    if pair is not None:
        lines.append(f"Proxy-Authorization: Basic {b64encode(pair.encode()).decode()}")
    assert asked.heads == ["\r\n".join([*lines, "", ""])]


@pytest.mark.parametrize(
    "url",
    [
        f"https://user:{PASSWORD}@proxy:3128",
        f"socks5://user:{PASSWORD}@proxy:1080",
        f"http://user:{PASSWORD}/x@proxy:3128",
        f"http://user:{PASSWORD}@proxy:99999",
        f"http://user:{PASSWORD}@[::1",
        f"http://user:{PASSWORD}@",
    ],
)
async def test_an_invalid_proxy_url_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(Invalid, match="must be http://") as refused:
        await connect_through_proxy(url, "hub", 443)
    assert PASSWORD not in str(refused.value) and refused.value.__cause__ is None


async def test_a_channel_tells_where_the_proxy_did_not_lead_it() -> None:
    """The same, to who calls; and a proxy that is not there."""
    async with proxy(b"HTTP/1.1 407 no\r\n\r\n") as (_, place):
        channel = Http2Channel(CallTarget("hub", 443, proxy=f"http://{place}"), SystemClock())
        with pytest.raises(CallFailed, match="hub:443: .*refused to connect: 407 no") as refused:
            await channel.call("/a", ())
        assert refused.value.status is CallStatus.UNAVAILABLE
        await channel.close()
    channel = Http2Channel(CallTarget("hub", 443, proxy="http://127.0.0.1:9"), SystemClock())
    with pytest.raises(CallFailed, match="hub:443: ") as failed:
        await channel.call("/a", ())
    assert failed.value.status is CallStatus.UNAVAILABLE
    await channel.close()
