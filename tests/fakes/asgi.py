"""Clients of an ASGI application without a socket: programs, browsers and WebSockets."""

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from http.cookies import SimpleCookie
from typing import Any
from urllib.parse import unquote, urlencode, urlsplit

import orjson
from starlette.applications import Starlette
from starlette.routing import BaseRoute
from starlette.types import ASGIApp, Message, Scope

FORM = "application/x-www-form-urlencoded"


@dataclass(frozen=True)
class Response:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    """By lower-case name; of a repeated header, the last."""
    cookies: Sequence[str]
    """All `Set-Cookie` headers."""
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    def json(self) -> Any:
        return orjson.loads(self.body)


@dataclass
class AsgiClient:
    """Sends requests like one browser or program, which keeps its cookies."""

    app: ASGIApp
    base: str = "http://towline.example.org"
    source: str = "192.0.2.1"
    headers: Mapping[str, str] = field(default_factory=dict)
    """Sent with each request."""
    cookies: dict[str, str] = field(default_factory=dict)

    async def get(self, path: str, **headers: str) -> Response:
        """Header names have `_` for `-`."""
        return await self.send("GET", path, headers=headers)

    async def post_form(self, path: str, form: Mapping[str, str], **headers: str) -> Response:
        """Sends an HTML form."""
        body = urlencode(form).encode()
        return await self.send("POST", path, body, {"content_type": FORM, **headers})

    async def send_json(self, method: str, path: str, body: object, **headers: str) -> Response:
        """Sends a JSON body."""
        sent = {"content_type": "application/json", **headers}
        return await self.send(method, path, orjson.dumps(body), sent)

    async def send(
        self, method: str, path: str, body: bytes = b"", headers: Mapping[str, str] | None = None
    ) -> Response:
        """Sends any request."""
        received: list[Message] = [{"type": "http.request", "body": body}]
        sent: list[Message] = []

        async def receive() -> Message:
            return received.pop() if received else await asyncio.Future()

        async def send(message: Message) -> None:
            sent.append(message)

        scope = self._scope("http", path, headers or {})
        await self.app({**scope, "method": method}, receive, send)
        start, *parts = sent
        pairs = [(name.decode(), value.decode()) for name, value in start["headers"]]
        cookies = [value for name, value in pairs if name == "set-cookie"]
        self._keep(cookies)
        body = b"".join(part.get("body", b"") for part in parts)
        return Response(start["status"], dict(pairs), cookies, body)

    @asynccontextmanager
    async def websocket(self, path: str, *protocols: str) -> AsyncGenerator["Socket"]:
        """Opens a WebSocket, and leaves it with the block."""
        scope = {**self._scope("websocket", path, {}), "subprotocols": list(protocols)}
        socket = Socket()
        serving = asyncio.ensure_future(self.app(scope, socket.to_app.get, socket.from_app.put))
        await socket.to_app.put({"type": "websocket.connect"})
        try:
            yield socket
        finally:
            await socket.to_app.put({"type": "websocket.disconnect", "code": 1000})
            async with asyncio.timeout(10):
                await serving

    def _scope(self, kind: str, path: str, headers: Mapping[str, str]) -> Scope:
        base, parts = urlsplit(self.base), urlsplit(path)
        given = {"host": base.netloc, **self.headers, **headers}
        if self.cookies:
            given["cookie"] = "; ".join(f"{name}={value}" for name, value in self.cookies.items())
        return {
            "type": kind,
            "asgi": {"version": "3.0", "spec_version": "2.4"},
            "path": unquote(parts.path),
            "raw_path": parts.path.encode(),
            "query_string": parts.query.encode(),
            "root_path": "",
            "scheme": base.scheme if kind == "http" else base.scheme.replace("http", "ws"),
            "server": (base.hostname, base.port or 80),
            "client": (self.source, 50_000),
            "headers": [(k.replace("_", "-").encode(), v.encode()) for k, v in given.items()],
        }

    def _keep(self, set_cookies: Sequence[str]) -> None:
        for text in set_cookies:
            for name, cookie in SimpleCookie(text).items():
                self.cookies.pop(name, None)
                if cookie["max-age"] != "0":
                    self.cookies[name] = cookie.value


class Socket:
    """The client's end of a WebSocket."""

    def __init__(self) -> None:
        self.to_app: asyncio.Queue[Message] = asyncio.Queue()
        self.from_app: asyncio.Queue[Message] = asyncio.Queue()

    async def receive(self) -> Message:
        """Returns the application's next event: it accepts, sends, or closes."""
        async with asyncio.timeout(10):
            return await self.from_app.get()

    async def receive_json(self) -> Any:
        """Returns the next message."""
        return orjson.loads((await self.receive())["text"])

    async def send_json(self, message: object) -> None:
        await self.to_app.put({"type": "websocket.receive", "text": orjson.dumps(message).decode()})


def client_of(routes: Sequence[BaseRoute], **client: Any) -> AsgiClient:
    """A client of an application with these routes only."""
    return AsgiClient(Starlette(routes=routes), **client)
