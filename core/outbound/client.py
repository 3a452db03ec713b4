"""HTTP client for addresses from settings and users.

Limited in time and size, without cookies, and without proxies from the environment.
"""

import asyncio
import os
import ssl
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import aiohttp
from yarl import URL

from core.errors import Invalid, Unavailable
from core.outbound.addresses import AddressGuard
from core.outbound.reply import MAX_REPLY_BYTES, HttpReply
from core.tls import client_context

SECONDS = 10.0
_CONNECT_SECONDS = 5.0
_CONNECTIONS = 64
_REDIRECTS = frozenset({301, 302, 303, 307, 308})


@dataclass(frozen=True, slots=True, repr=False)
class OutboundRoute:
    """TLS context and proxy of a request. Has no repr, because a proxy URL may have a password.

    `trusted_proxy`: the proxy resolves and connects, so addresses of names are not checked here.
    """

    tls: ssl.SSLContext
    proxy: str | None = None
    trusted_proxy: bool = False


class OutboundClient:
    """Implements `HttpClient`. Every address passes the guard, and every connection verifies TLS.

    `route` is for requests without their own. `seconds` limits a request with its redirects,
    `connections` and `per_host` (0: unlimited) the open connections. Errors never contain the path
    or query of a URL, because these may be secret.
    """

    def __init__(
        self,
        guard: AddressGuard,
        route: OutboundRoute | None = None,
        *,
        seconds: float = SECONDS,
        connections: int = _CONNECTIONS,
        per_host: int = 0,
        keep_alive: bool = True,
        decompress: bool = False,
    ) -> None:
        self.guard = guard
        self._route = route or OutboundRoute(client_tls())
        self._seconds = seconds
        self._connections = connections
        self._per_host = per_host
        self._keep_alive = keep_alive
        self._decompress = decompress
        self._sessions: dict[bool, aiohttp.ClientSession] = {}

    async def request(
        self,
        method: str,
        url: str,
        headers: Mapping[str, str],
        body: bytes = b"",
        *,
        max_bytes: int = MAX_REPLY_BYTES,
        redirects: int = 0,
    ) -> HttpReply:
        """See `HttpClient`. Only the origin of `url` gets the headers and the body.

        Refuses redirects from https to http.
        """
        first_url = target_url = self._checked_url(url)
        try:
            async with asyncio.timeout(self._seconds):
                for _ in range(redirects + 1):
                    is_same_origin = target_url.origin() == first_url.origin()
                    sent_headers, data = (headers, body) if is_same_origin else ({}, b"")
                    reply = await self._send_once(method, target_url, sent_headers, data, max_bytes)
                    target = reply.headers.get("location")
                    if not redirects or reply.status not in _REDIRECTS or target is None:
                        return reply
                    target_url = self._redirect_target(target_url, target)
        except TimeoutError:
            raise self._timeout_error(first_url) from None
        except (OSError, ValueError) as error:
            raise Unavailable(
                f"{first_url.host} cannot be reached: {type(error).__name__}"
            ) from None
        raise Unavailable(f"{first_url.host} redirects too often")

    @asynccontextmanager
    async def stream(
        self,
        method: str,
        url: URL | str,
        headers: Mapping[str, str],
        body: bytes | None = None,
        *,
        seconds: float | None = None,
        route: OutboundRoute | None = None,
    ) -> AsyncGenerator[aiohttp.ClientResponse]:
        """Sends a request without reading the body, and without following redirects.

        Raises Unavailable, and the error of the address guard for a forbidden address.
        """
        checked_url, route = self._checked_url(url), route or self._route
        try:
            async with self._session(route).request(
                method,
                checked_url,
                data=body or None,
                headers=headers,
                allow_redirects=False,
                ssl=route.tls,
                proxy=route.proxy,
                timeout=_timeout(seconds or self._seconds),
            ) as response:
                yield response
        except TimeoutError:
            raise self._timeout_error(checked_url, seconds) from None
        except (aiohttp.ClientError, ConnectionError) as error:
            raise Unavailable(
                f"{checked_url.host} cannot be reached: {_describe_error(error)}"
            ) from None

    async def close(self) -> None:
        """Closes all connections."""
        for session in self._sessions.values():
            await session.close()
        await self.guard.close()

    async def _send_once(
        self, method: str, url: URL, headers: Mapping[str, str], body: bytes, max_bytes: int
    ) -> HttpReply:
        async with self.stream(method, url, headers, body) as response:
            content, truncated = await read_body(response.content, max_bytes)
            names = {name.lower(): value for name, value in response.headers.items()}
            return HttpReply(response.status, names, content, truncated)

    def _session(self, route: OutboundRoute) -> aiohttp.ClientSession:
        is_guarded = route.proxy is None or not route.trusted_proxy
        if is_guarded not in self._sessions:
            connector = aiohttp.TCPConnector(
                resolver=self.guard if is_guarded else None,
                limit=self._connections,
                limit_per_host=self._per_host,
                force_close=not self._keep_alive,
            )
            encoding = {} if self._decompress else {"Accept-Encoding": "identity"}
            self._sessions[is_guarded] = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"User-Agent": "towline", **encoding},
                auto_decompress=self._decompress,
            )
        return self._sessions[is_guarded]

    def _checked_url(self, text: URL | str) -> URL:
        """Checks a URL and its host. An IP address is checked here, because it is not resolved."""
        try:
            url = URL(text)
            host = url.host
        except (ValueError, TypeError):
            raise self.guard.error("invalid URL: configure it again") from None
        if url.scheme not in ("http", "https") or not host:
            raise self.guard.error("not an http or https URL: configure it again")
        if url.user is not None or url.password is not None:
            raise self.guard.error("the URL must not contain credentials")
        self.guard.check_host(host)
        return url

    def _redirect_target(self, base: URL, target: str) -> URL:
        try:
            url = base.join(URL(target))
        except ValueError:
            raise Unavailable(f"{base.host} redirects to an invalid URL") from None
        if base.scheme == "https" and url.scheme != "https":
            raise self.guard.error(f"{base.host} redirects to a URL without TLS: refused")
        return self._checked_url(url)

    def _timeout_error(self, url: URL, seconds: float | None = None) -> Unavailable:
        return Unavailable(f"{url.host} did not answer within {seconds or self._seconds:g} s")


@lru_cache(64)
def client_tls(ca_file: Path | None = None) -> ssl.SSLContext:
    """Returns a context that trusts the CAs of a PEM file, or else the system's.

    Raises Invalid for an unreadable file.
    """
    try:
        return client_context(file=ca_file)
    except OSError as error:
        raise Invalid(f"cannot read the certificate authorities in {ca_file}: {error}") from None


async def read_body(content: aiohttp.StreamReader, max_bytes: int) -> tuple[bytes, bool]:
    """Reads at most `max_bytes` of a body; the second value is true if it has more."""
    body = bytearray()
    while len(body) <= max_bytes and (part := await content.read(max_bytes + 1 - len(body))):
        body += part
    truncated = len(body) > max_bytes
    del body[max_bytes:]
    return bytes(body), truncated


def _timeout(seconds: float) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=seconds, sock_connect=min(_CONNECT_SECONDS, seconds))


def _describe_error(error: BaseException) -> str:
    """Describes an error without its text, which may contain the URL."""
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return "its TLS certificate is not trusted; configure its CA"
    if isinstance(error, aiohttp.ClientSSLError):
        return "TLS failed; the server may require a client certificate"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return "its host name cannot be resolved"
    if isinstance(error, aiohttp.ClientHttpProxyError):
        return f"the proxy answered {error.status}"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return "the proxy cannot be reached"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _describe_os_error(error.os_error)
    return "the connection was lost"


def _describe_os_error(error: OSError) -> str:
    # asyncio's text names the call and the address; the number alone tells why.
    number = error.errno or 0
    text = os.strerror(number) if number > 0 else error.strerror
    return (text or "connection failed").partition("[")[0].lower().strip()
