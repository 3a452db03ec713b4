"""JSON over HTTPS to services from the operator's own settings: Vaults and key hooks."""

from collections.abc import Mapping
from http import HTTPStatus
from pathlib import Path
from urllib.parse import urlsplit

import orjson

from core.errors import Forbidden, Invalid, NotFound, TowlineError, Unavailable
from core.json_object import JsonObject, JsonValue
from core.outbound.addresses import EVERYWHERE, AddressGuard
from core.outbound.client import OutboundClient, OutboundRoute, client_tls
from core.outbound.reply import HttpReply
from core.remotes import is_loopback_host

_MAX_BYTES = 2 << 20
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
        if parts.scheme != "https" and not is_loopback_host(parts.hostname or ""):
            raise Invalid(f"{title} needs an https URL, not {parts.netloc[:200]}")
        self._title = title
        self._url = url.rstrip("/")
        self._http = OutboundClient(AddressGuard(EVERYWHERE), OutboundRoute(client_tls(ca_file)))

    async def ask(
        self, method: str, path: str, headers: Mapping[str, str], body: JsonValue = None
    ) -> JsonObject:
        """Returns the JSON object of the response. Raises Invalid, Forbidden, NotFound or
        Unavailable by status.
        """
        data = b"" if body is None else orjson.dumps(body)
        url = self._url + path
        try:
            reply = await self._http.request(method, url, headers, data, max_bytes=_MAX_BYTES)
        except Unavailable as error:
            raise Unavailable(f"{self._title} is unavailable: {error.message}") from None
        if reply.status == HTTPStatus.OK and (answer := _json_object(reply)) is not None:
            return answer
        raise _ERRORS.get(reply.status, Unavailable)(f"{self._title} answered {reply.status}")

    async def close(self) -> None:
        """Closes all connections."""
        await self._http.close()


def _json_object(reply: HttpReply) -> JsonObject | None:
    try:
        answer = None if reply.truncated else orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        return None
    return answer if isinstance(answer, dict) else None
