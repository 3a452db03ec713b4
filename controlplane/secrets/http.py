"""JSON over HTTPS to services from the operator's own settings: Vaults and key hooks."""

import ssl
from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import orjson

from core.errors import Forbidden, Invalid, NotFound, TowlineError, Unavailable

_MAX_BYTES = 2 << 20
_TIMEOUT = aiohttp.ClientTimeout(total=10)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})
_ERRORS: Mapping[int, type[TowlineError]] = {
    HTTPStatus.BAD_REQUEST: Invalid,
    HTTPStatus.FORBIDDEN: Forbidden,
    HTTPStatus.UNAUTHORIZED: Forbidden,
    HTTPStatus.NOT_FOUND: NotFound,
}


class JsonClient:
    """Client of one server, without redirects; plain HTTP only to localhost.

    Errors never contain a response, because it may hold a secret.
    """

    def __init__(self, title: str, url: str, ca_file: Path | None = None) -> None:
        parts = urlsplit(url)
        if parts.scheme != "https" and parts.hostname not in _LOOPBACK:
            raise Invalid(f"{title} needs an https URL, not {parts.netloc[:200]}")
        self._title = title
        self._url = url.rstrip("/")
        self._ca_file = ca_file
        self._session: aiohttp.ClientSession | None = None

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: Any = None
    ) -> dict[str, Any]:
        """Returns the JSON object of the response. Raises Invalid, Forbidden, NotFound or
        Unavailable by status.
        """
        session = self._open()
        data = None if body is None else orjson.dumps(body)
        try:
            async with session.request(
                method, self._url + path, data=data, headers=dict(headers), allow_redirects=False
            ) as answer:
                content = await _bounded(answer)
                status = answer.status
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            why = type(error).__name__
            raise Unavailable(f"{self._title} cannot be reached: {why}") from None
        if status == HTTPStatus.OK and (told := _object(content)) is not None:
            return told
        raise _ERRORS.get(status, Unavailable)(f"{self._title} answered {status}")

    async def close(self) -> None:
        """Closes all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            cafile = str(self._ca_file) if self._ca_file else None
            connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=cafile))
            self._session = aiohttp.ClientSession(connector=connector, timeout=_TIMEOUT)
        return self._session


async def _bounded(answer: aiohttp.ClientResponse) -> bytes:
    content = b""
    while len(content) <= _MAX_BYTES and not answer.content.at_eof():
        content += await answer.content.read(_MAX_BYTES + 1 - len(content))
    return content


def _object(content: bytes) -> dict[str, Any] | None:
    try:
        told = orjson.loads(content) if len(content) <= _MAX_BYTES else None
    except orjson.JSONDecodeError:
        return None
    return told if isinstance(told, dict) else None
