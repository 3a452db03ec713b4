"""Authentication at registries: basic authentication (RFC 7617), and tokens from a realm."""

import base64
import re
from collections import OrderedDict
from ipaddress import ip_address
from urllib.parse import urlencode, urlsplit

import orjson

from controlplane.ports import GuardedClient, RegistryAccount
from core.errors import Unavailable
from core.runtime.clock import Clock

_FIELD = re.compile(r'(\w+)="([^"]{0,2000})"')
_SECONDS = 60
_MAX_LIFE_S = 3_600
_EARLY = 10
_MAX_CACHED = 1_000

Signed = dict[str, str]


class RegistryTokens:
    """Caches the credentials of each repository of a registry until they expire."""

    def __init__(self, outward: GuardedClient, clock: Clock) -> None:
        self._outward = outward
        self._clock = clock
        self._known: OrderedDict[tuple[str, ...], tuple[float, Signed]] = OrderedDict()

    def known(self, host: str, name: str, account: RegistryAccount | None) -> Signed:
        """Returns the authorization headers of a request, if a cached sign-in is still valid."""
        until, signed = self._known.get(_key(host, name, account), (0.0, {}))
        return signed if self._clock.monotonic() < until else {}

    async def sign_in(
        self, host: str, name: str, account: RegistryAccount | None, challenge: str
    ) -> Signed:
        """Answers the registry's challenge. Raises Unavailable if that is impossible."""
        if challenge.lower().startswith("basic"):
            if account is None:
                raise Unavailable(f"{host} requires credentials: add the registry as a repository")
            return self._keep(host, name, account, _basic(account), _MAX_LIFE_S)
        fields = dict(_FIELD.findall(challenge))
        if not challenge.lower().startswith("bearer") or "realm" not in fields:
            raise Unavailable(f"{host} requires an unsupported authentication scheme")
        told = await self._ask(host, fields["realm"], fields.get("service", ""), name, account)
        token = told.get("token") or told.get("access_token")
        if not isinstance(token, str) or not token or len(token) > 64 << 10 or "\n" in token:
            raise Unavailable(f"{host} returned no token")
        seconds = told.get("expires_in")
        lasts = seconds if isinstance(seconds, int) else _SECONDS
        signed = {"authorization": f"Bearer {token}"}
        return self._keep(host, name, account, signed, min(lasts, _MAX_LIFE_S))

    async def _ask(
        self, host: str, realm: str, service: str, name: str, account: RegistryAccount | None
    ) -> dict:
        try:
            parts = urlsplit(realm)
        except ValueError:
            raise Unavailable(f"{host} refers to an invalid authentication URL") from None
        if parts.scheme != "https" and not (is_local(host) and is_local(parts.netloc)):
            raise Unavailable(f"{host} refers to an authentication server without TLS: refused")
        asked = {"service": service, "scope": f"repository:{name}:pull"}
        url = f"{realm}{'&' if parts.query else '?'}{urlencode(asked)}"
        reply = await self._outward.ask("GET", url, _basic(account) if account else {})
        if reply.status != 200:
            seconds = reply.headers.get("retry-after", "")
            later = float(seconds) if seconds.isdecimal() and len(seconds) < 7 else None
            raise Unavailable(
                f"{parts.hostname} rejected the credentials for {name} (status {reply.status})",
                retry_after=later,
            )
        try:
            told = orjson.loads(reply.body)
        except orjson.JSONDecodeError:
            told = None
        return told if isinstance(told, dict) else {}

    def _keep(
        self, host: str, name: str, account: RegistryAccount | None, signed: Signed, seconds: int
    ) -> Signed:
        until = self._clock.monotonic() + max(seconds - _EARLY, 0)
        self._known[_key(host, name, account)] = (until, signed)
        if len(self._known) > _MAX_CACHED:
            self._known.popitem(last=False)
        return signed


def is_local(host: str) -> bool:
    """Returns whether a host (with a port) is localhost."""
    name = urlsplit(f"//{host}").hostname or ""
    try:
        return name == "localhost" or ip_address(name).is_loopback
    except ValueError:
        return False


def _key(host: str, name: str, account: RegistryAccount | None) -> tuple[str, ...]:
    return (host, name, account.username, account.password) if account else (host, name)


def _basic(account: RegistryAccount) -> Signed:
    pair = f"{account.username}:{account.password}"
    return {"authorization": "Basic " + base64.b64encode(pair.encode()).decode()}
