"""Where charts are fetched from: names that change their mind, proxies, own authorities."""

import socket
import ssl
from collections.abc import AsyncGenerator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.abc import AbstractResolver, ResolveResult

from core.errors import Invalid, Unavailable
from gitcache.charts.http_client import ChartHttpClient
from gitcache.charts.oci import OciChartRepository
from gitcache.mirror.address_filter import AddressFilter
from gitcache.mirror.tls import client_context
from tests.fakes.connectproxy import ConnectProxy
from tests.fakes.tls import TestAuthority

METADATA = "169.254.169.254"


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


@asynccontextmanager
async def served(tls: ssl.SSLContext | None = None) -> AsyncGenerator[int]:
    """The port of a server that says hello, and ends each connection."""

    async def hello(request: web.Request) -> web.Response:
        return web.Response(text="hello", headers={"Connection": "close"})

    app = web.Application()
    app.router.add_get("/{path:.*}", hello)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0, ssl_context=tls).start()
    try:
        yield running.addresses[0][1]
    finally:
        await running.cleanup()


@asynccontextmanager
async def fetching(names: Names, **more: object) -> AsyncGenerator[ChartHttpClient]:
    admission = AddressFilter(allow_private_hosts=True, resolver=names)
    fetcher = ChartHttpClient(admission, admission.check_host, seconds=5, **more)  # ty: ignore
    try:
        yield fetcher
    finally:
        await fetcher.close()
        await admission.close()


async def test_a_name_is_connected_to_where_it_was_checked() -> None:
    """It leads elsewhere at the second look (DNS rebinding): there is no second look."""
    names = Names(["127.0.0.1"], [METADATA])
    async with served() as port, fetching(names) as fetcher:
        url = f"http://charts.test:{port}/index.yaml"
        assert (await fetcher.get(url, max_bytes=100)).body == b"hello"
        assert names.asked == 1


@pytest.mark.parametrize("answer", [[METADATA], ["127.0.0.1", METADATA]])
async def test_a_name_with_a_forbidden_address_is_not_connected_to(answer: list[str]) -> None:
    async with served() as port, fetching(Names(answer)) as fetcher:
        with pytest.raises((Invalid, Unavailable)) as caught:
            await fetcher.get(f"http://charts.test:{port}/", max_bytes=100)
    assert "not allowed" in caught.value.message


@pytest.mark.parametrize("host", ["2852039166", "169.16689662", "0xa9.0xfe.0xa9.0xfe"])
async def test_an_address_in_a_form_of_its_own_is_not_connected_to(host: str) -> None:
    names = Names([METADATA])
    async with fetching(names) as fetcher:
        with pytest.raises(Invalid, match="not an IPv4 address"):
            await fetcher.get(f"http://{host}/latest", max_bytes=100)
    assert names.asked == 0


async def test_an_authority_of_the_installation_is_trusted(tmp_path: Path) -> None:
    own = TestAuthority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(own.certificate, own.key)
    async with AsyncExitStack() as stack:
        port = await stack.enter_async_context(served(server))
        plain = await stack.enter_async_context(fetching(Names(["127.0.0.1"])))
        tls = client_context(None, own.ca.read_text())
        trusting = await stack.enter_async_context(fetching(Names(["127.0.0.1"]), tls=tls))
        url = f"https://localhost:{port}/"
        with pytest.raises(Unavailable, match="cannot be reached"):
            await plain.get(url, max_bytes=100)
        assert (await trusting.get(url, max_bytes=100)).status == 200


async def test_charts_are_fetched_through_the_installations_proxy(tmp_path: Path) -> None:
    own = TestAuthority(tmp_path)
    server = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    server.load_cert_chain(own.certificate, own.key)
    tls = client_context(None, own.ca.read_text())
    names = Names([METADATA])
    async with served(server) as port, ConnectProxy() as proxy:
        async with fetching(names, proxy=proxy.url, tls=tls) as fetcher:
            url = f"https://localhost:{port}/"
            assert (await fetcher.get(url, max_bytes=100)).body == b"hello"
            with pytest.raises(Invalid, match="link-local"):
                await fetcher.get(f"https://{METADATA}/", max_bytes=100)
        assert proxy.targets == [f"localhost:{port}"]
    assert names.asked == 0


@pytest.mark.parametrize("host", ["tokens.test", "127.0.0.1.tokens.test"])
async def test_a_registry_never_hears_credentials_without_tls(host: str) -> None:
    """It may name any place to sign in at, but none where others could listen."""

    async def challenge(request: web.Request) -> web.Response:
        told = f'Bearer realm="http://{host}/token",service="x"'
        return web.Response(status=401, headers={"WWW-Authenticate": told})

    app = web.Application()
    app.router.add_get("/{path:.*}", challenge)
    running = web.AppRunner(app)
    await running.setup()
    await web.TCPSite(running, "127.0.0.1", 0).start()
    names = Names(["127.0.0.1"])
    async with fetching(names) as fetcher:
        place = f"oci://127.0.0.1:{running.addresses[0][1]}/charts"
        with pytest.raises(Unavailable, match=f"{host} without TLS"):
            await OciChartRepository(fetcher, place, "web", "Basic c2VjcmV0").tags()
    assert names.asked == 0
    await running.cleanup()
