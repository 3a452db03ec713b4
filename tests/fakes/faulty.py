"""A small API server that fails at will: for the agent's client, over real HTTP."""

import asyncio
import ssl
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.fakes.tls import TestAuthority

_KINDS = {"configmaps": "ConfigMap", "secrets": "Secret", "shops": "Shop"}


class FaultyServer:
    """Objects by path; faults by the name of an object.

    `failures` maps names to a status, `delays` to seconds; `forbidden` holds plurals that may not
    be listed; with a `token` all others are refused. `signed` are the credentials that came,
    `waiting` counts requests that are being delayed.
    """

    def __init__(self, tls: Path | None = None) -> None:
        self.failures: dict[str, int] = {}
        self.delays: dict[str, float] = {}
        self.forbidden: set[str] = set()
        self.token = ""
        self.signed: list[str] = []
        self.waiting = 0
        self.address = ""
        self._objects: dict[str, dict[str, Any]] = {}
        self._authority: TestAuthority | None = None
        if tls is not None:
            tls.mkdir(exist_ok=True)
            self._authority = TestAuthority(tls)
        self._runner: web.AppRunner | None = None

    async def __aenter__(self) -> "FaultyServer":
        app = web.Application()
        app.router.add_route("*", "/{rest:.*}", self._handle)
        self._runner = web.AppRunner(app, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, ssl_context=self._context()).start()
        scheme = "https" if self._authority else "http"
        self.address = f"{scheme}://127.0.0.1:{self._runner.addresses[0][1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._runner is not None
        await self._runner.cleanup()

    def trust(self) -> ssl.SSLContext:
        """What a client that trusts this server uses."""
        assert self._authority is not None
        return self._authority.client_context()

    def config(self, name: str, **labels: str) -> dict[str, Any]:
        """A ConfigMap."""
        meta = {"name": name, "namespace": "n", "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    async def until(self, right: Callable[[], object]) -> None:
        """Let requests come until something holds."""
        async with asyncio.timeout(10):
            while not right():
                await asyncio.sleep(0.01)

    def _context(self) -> ssl.SSLContext | None:
        if self._authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._authority.certificate, self._authority.key)
        return context

    async def _handle(self, request: web.Request) -> web.Response:
        self.signed.append(request.headers.get("Authorization", ""))
        if self.token and self.signed[-1] != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        *_, last = request.path.split("/")
        if last in self.delays:
            await self._delay(self.delays[last])
        if last in self.failures:
            return _status(self.failures[last], "InternalError")
        return self._answer(request.method, request.path, last, await request.read())

    async def _delay(self, seconds: float) -> None:
        self.waiting += 1
        try:
            await asyncio.sleep(seconds)
        finally:
            self.waiting -= 1

    def _answer(self, method: str, path: str, last: str, body: bytes) -> web.Response:
        if path in ("/api", "/apis"):
            return _json(_groups() if path == "/api" else {"items": []})
        if path in ("/api/v1", "/apis/shop.io/v1"):
            return _json({"resources": [_resource(plural) for plural in _KINDS]})
        if last in self.forbidden:
            return _status(403, "Forbidden")
        if last in _KINDS:
            return _json({"metadata": {"resourceVersion": "9"}, "items": self._all(last)})
        if method == "PATCH":
            self._objects[path] = orjson.loads(body)
        found = self._objects.get(path)
        return _json(found) if found is not None else _status(404, "NotFound")

    def _all(self, plural: str) -> list[dict[str, Any]]:
        return [one for path, one in self._objects.items() if f"/{plural}/" in path]


def _groups() -> dict[str, Any]:
    """The core group, as an aggregated discovery document."""
    resources = [
        {
            "resource": plural,
            "responseKind": {"kind": kind},
            "scope": "Namespaced",
            "verbs": ["list", "patch"],
        }
        for plural, kind in _KINDS.items()
        if kind != "Shop"
    ]
    return {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": resources}]}]}


def _resource(plural: str) -> dict[str, Any]:
    return {"name": plural, "kind": _KINDS[plural], "namespaced": True}


def _json(body: object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def _status(code: int, reason: str) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"injected: {reason}", "code": code}
    return web.Response(status=code, body=orjson.dumps(body), content_type="application/json")
