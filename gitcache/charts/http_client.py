"""GET requests to user-supplied URLs, with limits and an address check at each redirect."""

import asyncio
import ipaddress
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import aiohttp
from aiohttp.abc import AbstractResolver
from yarl import URL

from core.errors import Invalid, Unavailable

_MAX_REDIRECTS = 5
_CHUNK = 64 << 10
_REDIRECTS = {301, 302, 303, 307, 308}


@dataclass(frozen=True, slots=True)
class ChartHttpResponse:
    """A complete HTTP response; `body` is within the requested limit."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class ChartHttpClient:
    """An HTTP client that follows redirects itself, so that each hop is https and allowed.

    `resolver` returns only allowed addresses; `check_host` refuses hosts that are forbidden IP
    addresses. Only the first host gets credentials. With a `proxy` (the installation's URL), the
    proxy resolves names. `tls` holds the trusted CAs.
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
    ) -> ChartHttpResponse:
        """Sends a GET. Raises Invalid for a forbidden URL or too many bytes, else Unavailable.

        Statuses 429 and 5xx are Unavailable; the caller handles all others.
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
            raise Unavailable(f"{first.host} did not answer within {self._seconds:g} s") from error
        raise Unavailable(f"{first.host} redirects too often")

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    async def _once(
        self, url: URL, max_bytes: int, headers: Mapping[str, str] | None
    ) -> ChartHttpResponse:
        async with self._running().get(
            url, headers=headers, allow_redirects=False, proxy=self._proxy, ssl=self._tls
        ) as response:
            body = bytearray()
            async for chunk in response.content.iter_chunked(_CHUNK):
                body += chunk
                if len(body) > max_bytes:
                    raise Invalid(f"{url.host} sent more than the limit of {max_bytes:,} bytes")
            return ChartHttpResponse(response.status, response.headers, bytes(body))

    def _running(self) -> aiohttp.ClientSession:
        if self._session is None:
            connector = aiohttp.TCPConnector(resolver=self._resolver, limit_per_host=4)
            self._session = aiohttp.ClientSession(
                connector=connector,
                headers={"Accept-Encoding": "identity", "User-Agent": "towline"},
                cookie_jar=aiohttp.DummyCookieJar(),
            )
        return self._session


def is_loopback_host(host: str) -> bool:
    """True for localhost, where registries use plain HTTP."""
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _checked(text: str, before: URL | None = None) -> URL:
    """Checks a URL. Raises Invalid for schemes other than https, and for credentials in it."""
    try:
        url = URL(text)
    except ValueError as error:
        raise Invalid("is not a URL", field="url") from error
    plain = url.scheme == "http" and (before is None or before.scheme == "http")
    if not url.host or not (url.scheme == "https" or plain):
        raise Invalid("charts can be fetched only over https", field="url")
    if url.user or url.password:
        raise Invalid("must not contain credentials", field="url")
    return url


def _judged(url: URL, answer: ChartHttpResponse) -> ChartHttpResponse:
    if answer.status >= 500 or answer.status == 429:
        raise Unavailable(f"{url.host} answered {answer.status}; the git cache will retry")
    return answer
