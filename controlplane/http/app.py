"""The Starlette application."""

from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from controlplane.http.console import Console
from controlplane.http.graphql import MAX_REQUEST_BYTES
from controlplane.platform.http.hosts import ANY_HOST, KnownHosts
from controlplane.platform.http.trusted_proxies import ForwardedClients
from core import __version__
from core.trusted_proxies import TrustedProxies

MAX_BODY_BYTES = 5 << 20

_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self'",
        "font-src 'self'",
        "connect-src 'self'",
        "form-action 'self'",
        "base-uri 'none'",
        "frame-ancestors 'none'",
    )
)
_SECURITY_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    # With no-referrer, browsers would send our own forms with `Origin: null`.
    (b"referrer-policy", b"same-origin"),
    (b"content-security-policy", _POLICY.encode()),
)

Readiness = Callable[[], Awaitable[str | None]]


def make_app(
    graphql: ASGIApp,
    readiness: Readiness,
    routes: Sequence[BaseRoute] = (),
    console: Path | None = None,
    hosts: Collection[str] = (ANY_HOST,),
    proxies: TrustedProxies | None = None,
    cluster_domain: str = "",
) -> ASGIApp:
    """Creates the application.

    `readiness` returns the reason why this replica is not ready, or None. `console` is the folder
    of the built console; None: this installation has none. `hosts` are the accepted host names; see
    `KnownHosts`, also for `cluster_domain`. `proxies` name the addresses of clients; None: no proxy
    is trusted.
    """

    async def healthz(_: Request) -> Response:
        return PlainTextResponse("ok")

    async def readyz(_: Request) -> Response:
        reason = await readiness()
        return PlainTextResponse(reason or "ok", 503 if reason else 200)

    async def version(_: Request) -> Response:
        return JSONResponse({"version": __version__})

    app = Starlette(
        routes=[
            Route("/gql", graphql, max_body_size=MAX_REQUEST_BYTES),
            Route("//gql", graphql, max_body_size=MAX_REQUEST_BYTES),
            WebSocketRoute("/gql", graphql),
            Route("/healthz", healthz),
            Route("/readyz", readyz),
            Route("/version", version),
            *routes,
        ],
        max_body_size=MAX_BODY_BYTES,
    )
    app.router.default = Console(console)
    secured = SecurityHeaders(KnownHosts(app, hosts, cluster_domain))
    return ForwardedClients(secured, proxies or TrustedProxies())


class SecurityHeaders:
    """Adds security headers for browsers to every response."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *_SECURITY_HEADERS]
            await send(message)

        await self._app(scope, receive, send_with_headers)
