"""HTTP requests to git servers, within each server's rate limit."""

from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from urllib.parse import urlsplit

import aiohttp
from yarl import URL

from core.errors import AccessDenied, Invalid, Unavailable
from core.outbound.addresses import EVERYWHERE, AddressGuard
from core.outbound.client import OutboundClient, read_body
from core.outbound.reply import retry_after
from core.runtime.clock import Clock
from gitcache.mirror.transport.rate_limit import ServerRateLimiter
from gitcache.mirror.transport.route import CredentialsRefused, ServerRoute

_MAX_PAUSE = 3600.0


def address_guard(*, allow_private_hosts: bool) -> AddressGuard:
    """Makes the guard of all addresses of repositories and charts."""
    return AddressGuard(
        EVERYWHERE if allow_private_hosts else (),
        error=partial(Invalid, field="url"),
        setting="git.fetch.allow_private_hosts",
    )


class GitHttpClient:
    """One connection pool for all repositories."""

    def __init__(self, http: OutboundClient, limiter: ServerRateLimiter, clock: Clock) -> None:
        self._http = http
        self._limiter = limiter
        self._clock = clock

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
        async with (
            self._limiter.slot(_server(url)),
            self._http.stream(
                method, url, headers, body, seconds=seconds, route=route.outbound
            ) as answer,
        ):
            yield answer

    def check_status(self, answer: aiohttp.ClientResponse) -> None:
        """Raises Unavailable or CredentialsRefused for a failure status."""
        host, status = answer.url.host or "", answer.status
        if status < 300:
            return
        pause = self._retry_after(answer)
        if status in {429, 503} or (status == 403 and pause):
            self._limiter.pause(_server(answer.url), pause or 0.0)
            raise Unavailable(f"{host} limits the rate of requests ({status})", retry_after=pause)
        if status in {401, 403}:
            raise CredentialsRefused(f"{host} refused the credentials ({status})")
        if status == 404:
            raise AccessDenied(
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

    def _retry_after(self, answer: aiohttp.ClientResponse) -> float | None:
        seconds = retry_after(answer.headers, self._clock.now())
        return None if seconds is None else min(seconds, _MAX_PAUSE)


async def read_limited(answer: aiohttp.ClientResponse, limit: int, name: str) -> bytes:
    """Reads the body. Raises Unavailable beyond `limit` bytes."""
    body, truncated = await read_body(answer.content, limit)
    if truncated:
        raise Unavailable(f"{name} is too long")
    return body


def _server(url: URL) -> str:
    return f"{url.host}:{url.port}"
