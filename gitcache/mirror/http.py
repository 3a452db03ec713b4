"""HTTP requests to git servers on pooled connections, with readable errors."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from core.errors import Invalid, Unavailable
from core.runtime.clock import Clock
from gitcache.mirror.address_filter import AddressFilter
from gitcache.mirror.rate_limit import ServerRateLimiter
from gitcache.mirror.route import CredentialsRefused, ServerRoute

_MAX_PAUSE = 3600.0


class GitHttpClient:
    """One connection pool for all repositories.

    Checks addresses when connecting, unless the installation's proxy connects.
    """

    def __init__(
        self, admission: AddressFilter, pacing: ServerRateLimiter, clock: Clock, *, seconds: float
    ) -> None:
        self._admission = admission
        self._pacing = pacing
        self._clock = clock
        self._seconds = seconds
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    @asynccontextmanager
    async def request(
        self,
        method: str,
        route: ServerRoute,
        url: URL,
        *,
        headers: Mapping[str, str],
        body: bytes | None = None,
        seconds: float | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Sends a request, without reading the body. Raises Unavailable, Invalid (address)."""
        host = url.host or ""
        if host != route.remote.host:
            self._admission.check_host(host)
        try:
            async with (
                self._pacing.turn(_server(url)),
                self._session(route).request(
                    method,
                    url,
                    data=body,
                    headers=headers,
                    allow_redirects=False,
                    ssl=route.tls,
                    proxy=route.proxy,
                    timeout=_timeout(seconds or self._seconds),
                ) as answer,
            ):
                yield answer
        except TimeoutError as error:
            raise Unavailable(f"timed out waiting for {host}") from error
        except (aiohttp.ClientError, ConnectionError) as error:
            _raise_refused(error)
            raise Unavailable(f"{host} cannot be reached: {_reason(error)}") from None

    def check(self, answer: aiohttp.ClientResponse) -> None:
        """Raises Unavailable or Refused for a failure status."""
        host, status = answer.url.host or "", answer.status
        if status < 300:
            return
        pause = self._retry_after(answer)
        if status in {429, 503} or (status == 403 and pause):
            self._pacing.pause(_server(answer.url), pause or 0.0)
            raise Unavailable(f"{host} limits the rate of requests ({status})", retry_after=pause)
        if status in {401, 403}:
            raise CredentialsRefused(f"{host} refused the credentials ({status})")
        if status == 404:
            raise Unavailable(
                f"{host} has no such repository, or these credentials cannot access it"
            )
        if status < 400:
            target = urlsplit(answer.headers.get("Location", ""))._replace(query="", fragment="")
            raise Unavailable(
                f"the repository has moved to {target.hostname}{target.path}: use that URL"
            )
        if status == 407:
            raise Unavailable("the proxy refused its credentials (407)")
        if status >= 500:
            raise Unavailable(f"{host} answered {status}")

    async def close(self) -> None:
        """Closes all connections."""
        for session in self._sessions.values():
            await session.close()

    def _session(self, route: ServerRoute) -> aiohttp.ClientSession:
        guarded = route.proxy is None or not route.trusted_proxy
        found = self._sessions.get(guarded)
        if found is None:
            connector = aiohttp.TCPConnector(limit=0, resolver=self._admission if guarded else None)
            found = self._sessions[guarded] = aiohttp.ClientSession(
                connector=connector, cookie_jar=aiohttp.DummyCookieJar(), auto_decompress=True
            )
        return found

    def _retry_after(self, answer: aiohttp.ClientResponse) -> float | None:
        """Parses Retry-After, seconds or a date (RFC 9110, 10.2.3); None without one."""
        text = answer.headers.get("Retry-After", "")
        if text.isdecimal() and len(text) < 8:
            return min(float(text), _MAX_PAUSE)
        try:
            until = parsedate_to_datetime(text)
            left = (until - self._clock.now()).total_seconds()
        except (ValueError, TypeError):
            return None
        return min(max(left, 0.0), _MAX_PAUSE)


async def read(answer: aiohttp.ClientResponse, limit: int, what: str) -> bytes:
    """Reads the body. Raises Unavailable beyond `limit` bytes."""
    parts: list[bytes] = []
    size = 0
    async for chunk in answer.content.iter_any():
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise Unavailable(f"{what} is too long")
    return b"".join(parts)


def _server(url: URL) -> str:
    return f"{url.host}:{url.port}"


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(5.0, seconds))


def _raise_refused(error: BaseException) -> None:
    """Raises the Invalid of `AddressFilter` that is wrapped in the client's error."""
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, Invalid):
            raise cause
        cause = cause.__cause__ or cause.__context__


def _reason(error: BaseException) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its TLS certificate is not trusted; add its CA to the repository"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed; the server may require a client certificate"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "the proxy cannot be reached"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _os_reason(error.os_error)
    return "the connection was lost"


def _os_reason(error: OSError) -> str:
    return (error.strerror or "connection failed").partition("[")[0].lower().strip()
