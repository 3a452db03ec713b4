"""Addresses of clients behind trusted proxies, for the HTTP application."""

from starlette.datastructures import Headers
from starlette.types import ASGIApp, Receive, Scope, Send

from core.trusted_proxies import TrustedProxies

_WEBSOCKET_SCHEMES = {"http": "ws", "https": "wss"}


class ForwardedClients:
    """Gives the application the client's address and scheme, as trusted proxies name them."""

    def __init__(self, app: ASGIApp, proxies: TrustedProxies) -> None:
        self._app = app
        self._proxies = proxies

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        client = scope.get("client")
        if client and self._proxies.is_trusted(client[0]):
            scope = self._forwarded(scope, client[0])
        await self._app(scope, receive, send)

    def _forwarded(self, scope: Scope, peer: str) -> Scope:
        headers = Headers(scope=scope)
        address = self._proxies.client_address(peer, headers.getlist("x-forwarded-for"))
        plain = scope["scheme"].replace("ws", "http")
        scheme = self._proxies.request_scheme(peer, plain, headers.getlist("x-forwarded-proto"))
        if scope["type"] == "websocket":
            scheme = _WEBSOCKET_SCHEMES[scheme]
        return {**scope, "client": (address, 0), "scheme": scheme}
