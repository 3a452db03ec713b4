"""Accepted host names of this installation, as a protection against DNS rebinding.

A page of evil.example could point that name to this address a moment later, and then talk to us
from its own origin. Its requests have evil.example as their host, so only known names are answered.
"""

from collections.abc import Collection
from ipaddress import ip_address

from starlette.datastructures import Headers
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Receive, Scope, Send

from core.host_names import hostname, is_below

ANY_HOST = "*"
_PROBES = frozenset({"/healthz", "/readyz"})
_REFUSAL = (
    "unknown name in the request's Host header: "
    "the operator can add it to `hosts` or `auth.public_url`"
)


class KnownHosts:
    """Answers requests with a known Host; others get 421, and their WebSockets are closed.

    `names` are DNS names, `*.example.org` for all names below a domain, `*` for all. IP addresses
    and names without a dot are always accepted, because no attacker can own one. Probes may use any
    host.

    Names below `cluster_domain` are those of clusters, which the Kubernetes proxy serves: pages and
    the API are never at these names.
    """

    def __init__(self, app: ASGIApp, names: Collection[str], cluster_domain: str = "") -> None:
        self._app = app
        self._names = {name.lower() for name in names}
        self._cluster_domain = cluster_domain

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket") or self._is_accepted(scope):
            await self._app(scope, receive, send)
        elif scope["type"] == "http":
            await PlainTextResponse(_REFUSAL, 421)(scope, receive, send)
        else:
            await receive()
            await send({"type": "websocket.close", "code": 1008, "reason": ""})

    def accepts(self, host: str) -> bool:
        """Returns whether a Host header names this installation."""
        name = hostname(host)
        if is_below(name, self._cluster_domain):
            return False
        if ANY_HOST in self._names or name in self._names:
            return True
        domain = name.partition(".")[2]
        return bool(name) and (not domain or _is_address(name) or f"*.{domain}" in self._names)

    def _is_accepted(self, scope: Scope) -> bool:
        return scope["path"] in _PROBES or self.accepts(Headers(scope=scope).get("host", ""))


def _is_address(name: str) -> bool:
    try:
        ip_address(name)
    except ValueError:
        return False
    return True
