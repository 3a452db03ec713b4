"""The shared HTTP client: names that change, redirects, proxies, authorities and limits."""

import asyncio
import gzip
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from core.errors import Invalid, Unavailable
from core.outbound.addresses import EVERYWHERE, AddressGuard
from core.outbound.client import OutboundClient, OutboundRoute, client_tls
from tests.fakes.connectproxy import ConnectProxy
from tests.fakes.tls import TestAuthority

METADATA = "169.254.169.254"
SECRET = {"Authorization": "Basic c2VjcmV0", "X-Vault-Token": "s3cret"}


class Names(AbstractResolver):
    """Gives one answer after the other, the last one for ever."""

    def __init__(self, *answers: list[str]) -> None:
        self._answers = list(answers)
        self.asked = 0

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_INET
    ) -> list[ResolveResult]:
        self.asked += 1
        found = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        flags = socket.AI_NUMERICHOST
        return [
            ResolveResult(
                hostname=host, host=one, port=port, family=socket.AF_INET, proto=0, flags=flags
            )
            for one in found
        ]

    async def close(self) -> None:
        return None


class Server:
    """Answers `hello`, or redirects `moved` paths; remembers the headers of each request."""

    def __init__(self) -> None:
        self.port = 0
        self.moved: dict[str, str] = {}
        self.requests: list[web.Request] = []
        self.body, self.headers = b"hello", {}
        self.hangs = False

    async def answer(self, request: web.Request) -> web.Response:
        self.requests.append(request)
        if self.hangs:
            await asyncio.sleep(30)
        if request.path in self.moved:
            return web.Response(status=307, headers={"Location": self.moved[request.path]})
        return web.Response(body=self.body, headers={"Connection": "close", **self.headers})

    def url(self, host: str, path: str = "/", scheme: str = "http") -> str:
        return f"{scheme}://{host}:{self.port}{path}"


@asynccontextmanager
async def serving(tls: ssl.SSLContext | None = None) -> AsyncGenerator[Server]:
    server = Server()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", server.answer)
    running = web.AppRunner(app, shutdown_timeout=0.1)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0, ssl_context=tls).start()
    server.port = running.addresses[0][1]
    try:
        yield server
    finally:
        await running.cleanup()


@pytest.fixture
async def server() -> AsyncIterator[Server]:
    async with serving() as running:
        yield running


@asynccontextmanager
async def asking(
    names: Names, route: OutboundRoute | None = None, **more: Any
) -> AsyncGenerator[OutboundClient]:
    guard = AddressGuard(EVERYWHERE, error=Invalid, resolver=names)
    client = OutboundClient(guard, route, **more)
    try:
        yield client
    finally:
        await client.close()


def local() -> Names:
    return Names(["127.0.0.1"])


async def test_a_name_is_connected_to_where_it_was_checked(server: Server) -> None:
    """It leads elsewhere at the second look (DNS rebinding): there is no second look."""
    names = Names(["127.0.0.1"], [METADATA])
    async with asking(names) as client:
        assert (await client.request("GET", server.url("charts.test"), {})).body == b"hello"
        assert names.asked == 1


@pytest.mark.parametrize("answer", [[METADATA], ["127.0.0.1", METADATA]])
async def test_a_name_with_a_forbidden_address_is_not_connected_to(
    server: Server, answer: list[str]
) -> None:
    async with asking(Names(answer)) as client:
        with pytest.raises(Invalid, match="not allowed"):
            await client.request("GET", server.url("charts.test"), {})
        with pytest.raises(Invalid, match="not allowed"):
            async with client.stream("GET", server.url("charts.test"), {}):
                pass
    assert not server.requests


@pytest.mark.parametrize("host", ["2852039166", "169.16689662", "0xa9.0xfe.0xa9.0xfe"])
async def test_an_address_in_a_form_of_its_own_is_not_connected_to(host: str) -> None:
    names = Names([METADATA])
    async with asking(names) as client:
        with pytest.raises(Invalid, match="not an IPv4 address"):
            await client.request("GET", f"http://{host}/latest", {})
    assert names.asked == 0


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/",
        "http://[::ffff:a9fe:a9fe]/",
        "http://user:password@localhost/",
        "ftp://localhost/",
        "http://[",
        "",
    ],
)
async def test_a_forbidden_url_is_refused_at_first_and_after_a_redirect(
    server: Server, url: str
) -> None:
    server.moved["/a"] = url
    async with asking(local()) as client:
        with pytest.raises(Invalid):
            await client.request("GET", url, {})
        if url:
            with pytest.raises((Invalid, Unavailable)):
                await client.request("GET", server.url("charts.test", "/a"), {}, redirects=5)
    assert len(server.requests) == bool(url)


async def test_redirects_are_followed_only_on_request_and_up_to_a_limit(server: Server) -> None:
    server.moved = {"/a": "/b", "/b": "/c"}
    url = server.url("charts.test", "/a")
    async with asking(local()) as client:
        assert (await client.request("GET", url, {})).status == 307
        assert (await client.request("GET", url, {}, redirects=2)).body == b"hello"
        with pytest.raises(Unavailable, match="redirects too often"):
            await client.request("GET", url, {}, redirects=1)


async def test_no_other_host_sees_the_headers_and_the_body(server: Server) -> None:
    """Nor does the same host on another port; the same origin does."""
    async with serving() as other, asking(local()) as client:
        server.moved = {"/a": "/b", "/b": other.url("charts.test"), "/c": server.url("evil.test")}
        for path in ("/a", "/c"):
            url = server.url("charts.test", path)
            await client.request("POST", url, SECRET, b"body", redirects=5)
        first, second, _, elsewhere = server.requests
        assert all(name in first.headers and name in second.headers for name in SECRET)
        for request in (elsewhere, *other.requests):
            assert not {*SECRET} & {*request.headers}
            assert request.content_length in (None, 0)
        assert len(other.requests) == 1


async def test_a_body_is_cut_at_the_limit(server: Server) -> None:
    async with asking(local()) as client:
        whole = await client.request("GET", server.url("charts.test"), {}, max_bytes=5)
        part = await client.request("GET", server.url("charts.test"), {}, max_bytes=4)
    assert (whole.body, whole.truncated) == (b"hello", False)
    assert (part.body, part.truncated) == (b"hell", True)


async def test_a_compressed_body_does_not_grow(server: Server) -> None:
    server.body, server.headers = gzip.compress(bytes(1 << 20)), {"Content-Encoding": "gzip"}
    async with asking(local()) as client:
        reply = await client.request("GET", server.url("charts.test"), {}, max_bytes=1 << 21)
    assert reply.body == server.body


async def test_a_server_that_hangs_is_left(server: Server) -> None:
    server.hangs = True
    async with asking(local(), seconds=0.2) as client:
        with pytest.raises(Unavailable, match=r"charts\.test did not answer within 0\.2 s"):
            await client.request("GET", server.url("charts.test"), {})


async def test_an_error_has_no_path_and_no_query(server: Server) -> None:
    async with asking(local()) as client:
        with pytest.raises(Unavailable) as caught:
            await client.request("GET", "http://charts.test:1/s3cret?token=s3cret", {})
        with pytest.raises(Unavailable) as odd:
            await client.request("GET", server.url("charts.test", "/s3cret"), {"a": "b\r\ns3cret"})
    assert "s3cret" not in caught.value.message + odd.value.message


async def test_cookies_and_proxies_of_the_environment_are_ignored(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    server.headers = {"Set-Cookie": "a=b"}
    async with asking(local()) as client:
        for _ in range(2):
            await client.request("GET", server.url("charts.test"), {})
    assert "Cookie" not in server.requests[1].headers


def tls_of(authority: TestAuthority) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(authority.certificate, authority.key)
    return context


async def test_an_authority_of_the_installation_is_trusted(tmp_path: Path) -> None:
    own = TestAuthority(tmp_path)
    trusting = OutboundRoute(client_tls(own.ca))
    async with serving(tls_of(own)) as server, asking(local()) as client:
        url = server.url("localhost", scheme="https")
        with pytest.raises(Unavailable, match="certificate is not trusted"):
            await client.request("GET", url, {})
        async with client.stream("GET", url, {}, route=trusting) as response:
            assert response.status == 200


def test_an_unreadable_authority_is_named(tmp_path: Path) -> None:
    for content in (None, "no certificate"):
        path = tmp_path / f"{content}.pem"
        if content:
            path.write_text(content)
        with pytest.raises(Invalid, match=str(path)):
            client_tls(path)


async def test_a_redirect_that_ends_tls_is_refused(tmp_path: Path, server: Server) -> None:
    own = TestAuthority(tmp_path)
    trusting = OutboundRoute(client_tls(own.ca))
    async with serving(tls_of(own)) as secure, asking(local(), trusting) as client:
        secure.moved["/a"] = server.url("charts.test")
        with pytest.raises(Invalid, match="without TLS"):
            await client.request("GET", secure.url("localhost", "/a", "https"), {}, redirects=5)
    assert not server.requests


async def test_a_trusted_proxy_resolves_names_but_opens_no_forbidden_address(
    tmp_path: Path,
) -> None:
    own = TestAuthority(tmp_path)
    names = Names([METADATA])
    async with serving(tls_of(own)) as server, ConnectProxy() as proxy:
        route = OutboundRoute(client_tls(own.ca), proxy.url, trusted_proxy=True)
        async with asking(names, route) as client:
            url = server.url("localhost", scheme="https")
            assert (await client.request("GET", url, {})).body == b"hello"
            with pytest.raises(Invalid, match="link-local"):
                await client.request("GET", f"https://{METADATA}/", {})
        assert proxy.targets == [f"localhost:{server.port}"]
    assert names.asked == 0


async def test_another_proxy_must_have_an_allowed_address(server: Server) -> None:
    route = OutboundRoute(client_tls(), "http://proxy.test:3128")
    async with asking(Names([METADATA]), route) as client:
        with pytest.raises(Invalid, match="link-local"):
            await client.request("GET", server.url("charts.test"), {})
    assert not server.requests
