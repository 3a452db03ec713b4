"""Installation tokens of GitHub Apps, requested with a signed JWT and renewed before expiry."""

import asyncio
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import jwt
import orjson
from yarl import URL

from core.errors import Invalid, Unavailable
from core.runtime.clock import Clock
from core.spec.source import GitCredentials
from gitcache.mirror.transport.http import GitHttpClient, read_limited
from gitcache.mirror.transport.route import ServerRoute

_RENEW_BEFORE = timedelta(minutes=10)
"""A running fetch may use its token for minutes."""
_MIN_AGE = timedelta(seconds=30)
"""A refused token younger than this is not renewed: the App lacks the permission."""
_MAX_ANSWER = 1 << 20
_MAX_TOKENS = 1000


@dataclass(frozen=True, slots=True, repr=False)
class _Token:
    text: str
    created_at: datetime
    expires_at: datetime


class AppTokens:
    """Tokens by App and installation, each requested once for all concurrent callers."""

    def __init__(self, http: GitHttpClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._tokens: OrderedDict[tuple[str | None, ...], _Token] = OrderedDict()
        self._request_lock = asyncio.Lock()

    async def token(self, credentials: GitCredentials, route: ServerRoute) -> str:
        """Returns a token that is valid for at least 10 minutes. Raises Unavailable, Invalid."""
        return await self._cached_token(credentials, route, None)

    async def repository_token(self, credentials: GitCredentials, route: ServerRoute) -> str:
        """Returns a token for the route's repository only."""
        name = route.remote.path.rpartition("/")[2].removesuffix(".git")
        return await self._cached_token(credentials, route, name)

    async def _cached_token(
        self, credentials: GitCredentials, route: ServerRoute, name: str | None
    ) -> str:
        key = (*_cache_key(credentials), name)
        if (token_text := self._valid_token(key)) is not None:
            return token_text
        async with self._request_lock:
            if (token_text := self._valid_token(key)) is not None:
                return token_text
            scope = {"repositories": [name], "permissions": {"contents": "read"}} if name else None
            token = await self._request_token(credentials, route, scope)
            self._tokens[key] = token
            if len(self._tokens) > _MAX_TOKENS:
                self._tokens.popitem(last=False)
            return token.text

    def forget(self, credentials: GitCredentials) -> bool:
        """Drops a refused token; returns False if it is too new for a retry with another."""
        key = (*_cache_key(credentials), None)
        token = self._tokens.get(key)
        if token is None or self._clock.now() - token.created_at < _MIN_AGE:
            return False
        del self._tokens[key]
        return True

    def _valid_token(self, key: tuple[str | None, ...]) -> str | None:
        token = self._tokens.get(key)
        if token is None or token.expires_at - self._clock.now() < _RENEW_BEFORE:
            return None
        return token.text

    async def _request_token(
        self,
        credentials: GitCredentials,
        route: ServerRoute,
        scope: Mapping[str, object] | None = None,
    ) -> _Token:
        """Calls `POST /app/installations/{id}/access_tokens`; no scope means all permissions."""
        url = URL(
            f"{api_base_url(credentials, route)}/app/installations/"
            f"{credentials.installation_id}/access_tokens"
        )
        headers = {
            "Authorization": f"Bearer {self._signed_jwt(credentials)}",
            "Accept": "application/vnd.github+json",
            "User-Agent": "towline",
        }
        body = orjson.dumps(scope) if scope else None
        async with self._http.request("POST", route, url, headers=headers, body=body) as answer:
            data = await read_limited(answer, _MAX_ANSWER, "the answer for a token")
        if answer.status != 201:
            raise Unavailable(
                f"{url.host} refused a token for installation {credentials.installation_id} of "
                f"App {credentials.app_id} ({answer.status}): check both numbers and the key"
            )
        return self._parse_token(data)

    def _signed_jwt(self, credentials: GitCredentials) -> str:
        now = int(self._clock.now().timestamp())
        claims = {"iat": now - 60, "exp": now + 540, "iss": credentials.app_id}
        try:
            return jwt.encode(claims, credentials.private_key or "", algorithm="RS256")
        except (ValueError, TypeError, jwt.PyJWTError):
            raise Invalid(
                "the App's private key is not an RSA key in PEM format", field="credentials"
            ) from None

    def _parse_token(self, data: bytes) -> _Token:
        try:
            response = orjson.loads(data)
            expires = datetime.fromisoformat(response["expires_at"])
            return _Token(str(response["token"]), self._clock.now(), expires)
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError):
            raise Unavailable(
                "cannot parse the response to the request for an App's token"
            ) from None


def api_base_url(credentials: GitCredentials | None, route: ServerRoute) -> str:
    """Returns the base URL of the host's REST API; GitHub's form unless `api_url` is set."""
    if credentials is not None and credentials.api_url:
        return credentials.api_url.rstrip("/")
    if route.remote.host == "github.com":
        return "https://api.github.com"
    if not route.remote.is_http:
        return f"https://{route.remote.host}/api/v3"
    return f"{route.remote.scheme}://{route.remote.host}:{route.remote.port}/api/v3"


def _cache_key(credentials: GitCredentials) -> tuple[str | None, ...]:
    return (
        credentials.app_id,
        credentials.installation_id,
        credentials.api_url,
        credentials.private_key,
    )
