"""Authentication at registries: basic authentication (RFC 7617), and tokens from a realm."""

import re
from urllib.parse import urlencode, urlsplit

import orjson

from core.errors import Unavailable
from core.outbound.credentials import RegistryAccount
from core.outbound.reply import HttpClient, retry_after
from core.remotes import is_loopback_host
from core.runtime.clock import Clock
from core.runtime.ttl_cache import TTLCache

_FIELD = re.compile(r'(\w+)="([^"]{0,2000})"')
_DEFAULT_LIFETIME_S = 60
_MAX_LIFETIME_S = 3_600
_EXPIRY_MARGIN_S = 10
_MAX_CACHED = 1_000
_MAX_TOKEN = 64 << 10

Headers = dict[str, str]


class RegistryTokens:
    """Caches the credentials of each repository of a registry until they expire."""

    def __init__(self, http: HttpClient, clock: Clock) -> None:
        self._http = http
        self._clock = clock
        self._cached: TTLCache[tuple[str, ...], Headers] = TTLCache(
            clock, _MAX_LIFETIME_S, _MAX_CACHED
        )

    def cached_headers(self, host: str, name: str, account: RegistryAccount | None) -> Headers:
        """Returns the authorization headers of a request, if a cached sign-in is still valid."""
        return self._cached.get(_cache_key(host, name, account)) or {}

    async def sign_in(
        self, host: str, name: str, account: RegistryAccount | None, challenge: str
    ) -> Headers:
        """Answers the registry's challenge. Raises Unavailable if that is impossible."""
        if challenge.lower().startswith("basic"):
            if account is None:
                raise Unavailable(f"{host} requires credentials: add the registry as a repository")
            return self._remember(host, name, account, account.headers, _MAX_LIFETIME_S)
        fields = dict(_FIELD.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in fields:
            raise Unavailable(f"{host} requires an unsupported authentication scheme")
        answer = await self._request_token(
            host, fields["realm"], fields.get("service", ""), name, account
        )
        token = answer.get("token") or answer.get("access_token")
        if not isinstance(token, str) or not token or len(token) > _MAX_TOKEN or "\n" in token:
            raise Unavailable(f"{host} returned no token")
        seconds = answer.get("expires_in")
        lifetime = seconds if isinstance(seconds, int) else _DEFAULT_LIFETIME_S
        headers = {"authorization": f"Bearer {token}"}
        return self._remember(host, name, account, headers, min(lifetime, _MAX_LIFETIME_S))

    async def _request_token(
        self, host: str, realm: str, service: str, name: str, account: RegistryAccount | None
    ) -> dict:
        """Requests a token. The scope is ours, so that a registry cannot get a wider token."""
        try:
            parts = urlsplit(realm)
            is_local = is_loopback_host(urlsplit(f"//{host}").hostname or "") and is_loopback_host(
                parts.hostname or ""
            )
        except ValueError:
            raise Unavailable(f"{host} refers to an invalid authentication URL") from None
        if parts.scheme != "https" and not is_local:
            raise Unavailable(
                f"{host} refers to the authentication server {parts.hostname} without TLS: refused"
            )
        query = urlencode({"service": service, "scope": f"repository:{name}:pull"})
        url = f"{realm}{'&' if parts.query else '?'}{query}"
        reply = await self._http.request("GET", url, account.headers if account else {})
        if reply.status != 200:
            raise Unavailable(
                f"{parts.hostname} rejected the credentials for {name} (status {reply.status})",
                retry_after=retry_after(reply.headers, self._clock.now()),
            )
        try:
            answer = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            answer = None
        return answer if isinstance(answer, dict) else {}

    def _remember(
        self, host: str, name: str, account: RegistryAccount | None, headers: Headers, seconds: int
    ) -> Headers:
        until = self._clock.monotonic() + max(seconds - _EXPIRY_MARGIN_S, 0)
        self._cached.put(_cache_key(host, name, account), headers, until)
        return headers


def _cache_key(host: str, name: str, account: RegistryAccount | None) -> tuple[str, ...]:
    return (host, name, account.username, account.password) if account else (host, name)
