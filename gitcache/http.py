"""The webhook endpoint: `POST /webhooks/git/{provider}/{id}`.

Size before reading, signature before parsing, 202 at once. A wrong signature, an unknown
repository and one without a secret read alike: 401.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol

import orjson
import structlog
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from fleet.identity import RepositoryId
from gitcache.domain.announcements import PROVIDERS, announced
from gitcache.domain.signatures import is_genuine

log = structlog.get_logger(__name__)

MAX_BODY = 5 << 20
"""Pushes with thousands of commits come in pages of a few MB at most."""

_ALIASES = {"forgejo": "gitea", "gogs": "gitea"}

SecretOf = Callable[[str], Awaitable[str | None]]


class Hinted(Protocol):
    """What a webhook needs of the cache."""

    async def hint(
        self, repository_id: RepositoryId, announced: Mapping[str, str] | None = None
    ) -> None:
        """Poll a repository now."""
        ...


def webhook_route(cache: Hinted, secret_of: SecretOf) -> Route:
    """The route; `secret_of` gives the webhook secret of a repository id, None if there is none."""

    async def receive(request: Request) -> Response:
        provider = _ALIASES.get(request.path_params["provider"], request.path_params["provider"])
        if provider not in PROVIDERS:
            return Response("unknown provider", 404)
        body = await _read(request)
        if body is None:
            return Response(f"more than {MAX_BODY} bytes", 413)
        repository_id = request.path_params["id"]
        secret = await secret_of(repository_id)
        if not is_genuine(provider, secret or "", request.headers, body):
            log.info("webhook refused", repository=repository_id, provider=provider)
            return Response("signature refused", 401)
        await cache.hint(RepositoryId(repository_id), announced(provider, _parse(body)))
        return Response(status_code=202)

    return Route("/webhooks/git/{provider}/{id}", receive, methods=["POST"])


async def _read(request: Request) -> bytes | None:
    """The body; None as soon as it is known to be too large."""
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > 12 or int(length) > MAX_BODY:
        return None
    body = bytearray()
    try:
        async for chunk in request.stream():
            body += chunk
            if len(body) > MAX_BODY:
                return None
    except ClientDisconnect:
        return None
    return bytes(body)


def _parse(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None
