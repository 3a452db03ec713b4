"""GET requests to servers that strangers may have named: bounded, and judged at each hop."""

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from fleet.errors import Invalid, Unavailable

_MAX_REDIRECTS = 5
_CHUNK = 64 << 10
_REDIRECTS = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class Answer:
    """A whole answer: `body` has at most the bytes that were asked for."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Fetcher:
    """Follows redirects itself, so that no hop leaves https or reaches a refused address.

    `resolver` gives out allowed addresses only; `check_host` refuses hosts that are such an
    address themselves. Headers for signing in go to the first host only. Through a `proxy` of the
    installation (its URL) names are looked up by that. `tls` is what is trusted.
    """

    def __init__(
        self,
        resolver: AbstractResolver,
        check_host: Callable[[str], None],
        *,
        seconds: float,
        proxy: str | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self._resolver = None if proxy else resolver
        self._check_host = check_host
        self._seconds = seconds
        self._proxy = proxy
        self._tls = tls or ssl.create_default_context()
        self._session: aiohttp.ClientSession | None = None

    async def get(
        self, url: str, *, max_bytes: int, headers: Mapping[str, str] | None = None
    ) -> Answer:
        """The answer to a GET. Invalid: a refused URL, or too many bytes. Unavailable: no answer.

        Statuses of 500 and more, and 429, are Unavailable; others are the caller's to judge.
        """
        first = here = _checked(url)
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(_MAX_REDIRECTS):
                    self._check_host(here.host or "")
                    own = headers if here.origin() == first.origin() else None
                    answer = await self._once(here, max_bytes, own)
                    if answer.status not in _REDIRECTS:
                        return _judged(here, answer)
                    here = _checked(str(here.join(URL(answer.headers.get("Location", "")))), here)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise Unavailable(f"{first.host} cannot be reached: {type(error).__name__}") from error
        except TimeoutError as error:
            raise Unavailable(f"{first.host} did not answer in {self._seconds:g} s") from error
        raise Unavailable(f"{first.host} redirects without end")

    async def close(self) -> None:
        """End all connections."""
        if self._session is not None:
            await self._session.close()

    async def _once(self, url: URL, max_bytes: int, headers: Mapping[str, str] | None) -> Answer:
        async with self._running().get(
            url, headers=headers, allow_redirects=False, proxy=self._proxy, ssl=self._tls
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > max_bytes:
                    raise Invalid(f"{url.host} sends more than {max_bytes:,} bytes: refused")
            return Answer(response.status, response.headers, bytes(body))

    def _running(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=self._resolver, limit_per_host=4)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"Accept-Encoding": "identity", "User-Agent": "towline"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def is_local(host: str) -> bool:
    """Whether a host is this machine, where plain HTTP is what registries speak."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(text: str, before: URL | None = None) -> URL:
    """A URL that may be asked. Invalid: another scheme than https, or credentials in it."""
    try:
        url = URL(text)
    except ValueError as error:
        raise Invalid("is not a URL", field="url") from error
    plain = url.scheme == "http" and (before is None or before.scheme == "http")
    if not url.host or not (url.scheme == "https" or plain):
        raise Invalid("charts are fetched by https only", field="url")
    if url.user or url.password:
        raise Invalid("credentials do not belong into a URL", field="url")
    return url


def _judged(url: URL, answer: Answer) -> Answer:
    if answer.status >= 500 or answer.status == 429:
        raise Unavailable(f"{url.host} answers {answer.status}; it is asked again later")
    return answer
