"""HTTP client for URLs that users configured: limited in time and size, without redirects."""

import asyncio
import ssl
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from controlplane.notify.addresses import AddressGuard
from controlplane.ports import HttpReply
from core.errors import Unavailable

SECONDS = 10.0
MAX_ANSWER_BYTES = 1 << 20
MAX_BODY_BYTES = 4 << 20
_MAX_CONNECTIONS = 64


class _Resolver(AbstractResolver):
    """Returns only checked addresses."""

    def __init__(self, addresses: AddressGuard) -> None:
        self._addresses = addresses

    async def resolve(self, host: str, port: int = 0, family: Any = 0) -> list[ResolveResult]:
        found = await self._addresses.resolve(host, port)
        return [
            ResolveResult(
                hostname=host, host=str(address), port=port,
                family=2 if address.version == 4 else 10, proto=0, flags=0,
            )
            for address in found
        ]  # fmt: skip

    async def close(self) -> None:
        pass


class GuardedHttpClient:
    """Sends requests. The session is created at first use."""

    def __init__(self, addresses: AddressGuard, ca_file: Path | None = None) -> None:
        self._addresses = addresses
        self._ca_file = ca_file
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, url: str, headers: Mapping[str, str], body: bytes = b""
    ) -> HttpReply:
        """Returns the truncated response. Raises Unavailable with the reason, without the URL's
        path.
        """
        host = self._judged(url)
        try:
            async with (
                asyncio.timeout(SECONDS),
                self._opened().request(
                    method, url, data=body or None, headers=headers, allow_redirects=False
                ) as said,
            ):
                content = await _read(said.content)
                names = {name.lower(): value for name, value in said.headers.items()}
                return HttpReply(said.status, names, content)
        except TimeoutError:
            raise Unavailable(f"{host} did not answer within {SECONDS:.0f} s") from None
        except aiohttp.ClientConnectorCertificateError:
            raise Unavailable(f"{host} presented an untrusted certificate") from None
        except (aiohttp.ClientError, OSError, ValueError) as error:
            # The text of these errors may contain the URL, whose path may be a secret.
            raise Unavailable(f"{host} cannot be reached: {type(error).__name__}") from None

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()

    def _judged(self, url: str) -> str:
        """Returns the host of a URL. Checks IP addresses here, because they are never resolved."""
        try:
            parts = urlsplit(url)
        except ValueError:
            raise Unavailable("invalid URL: configure it again") from None
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise Unavailable("not an http or https URL: configure it again")
        self._addresses.check_literal(parts.hostname)
        return parts.hostname

    def _opened(self) -> aiohttp.ClientSession:
        if self._session is None:
            cafile = str(self._ca_file) if self._ca_file else None
            connector = aiohttp.TCPConnector(
                ssl=ssl.create_default_context(cafile=cafile),
                resolver=_Resolver(self._addresses),
                use_dns_cache=False,
                limit=_MAX_CONNECTIONS,
                force_close=True,
            )
            self._session = aiohttp.ClientSession(
                connector=connector,
                cookie_jar=aiohttp.DummyCookieJar(),
                headers={"user-agent": "towline", "accept-encoding": "identity"},
                auto_decompress=False,
                trust_env=False,
            )
        return self._session


async def _read(content: aiohttp.StreamReader) -> bytes:
    """Reads the beginning of a body."""
    parts: list[bytes] = []
    room = MAX_ANSWER_BYTES
    while room > 0 and (part := await content.read(room)):
        parts.append(part)
        room -= len(part)
    return b"".join(parts)
