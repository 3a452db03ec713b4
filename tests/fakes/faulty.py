"""A small API server that fails at will: for the agent's client, over real HTTP."""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.fakes.tls import TestAuthority

_KINDS = {
    "configmaps": "ConfigMap",
    "secrets": "Secret",
    "events": "Event",
    "pods": "Pod",
    "jobs": "Job",
    "shops": "Shop",
}
_ROOTS = ("/api/v1", "/apis/batch/v1", "/apis/shop.io/v1")
_OF_OTHER_GROUPS = {"Job", "Shop"}
_DONE = {"succeeded": 1, "conditions": [{"type": "Complete", "status": "True"}]}


@dataclass(frozen=True)
class Watch:
    """One watch of a kind."""

    plural: str
    stream: web.StreamResponse
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    async def tell(self, event: dict[str, Any]) -> None:
        await self.stream.write(orjson.dumps(event) + b"\n")


class FaultyServer:
    """Objects by path; faults by the name of an object.

    `failures` maps names to a status, `delays` to seconds, which end early when it is taken out;
    `forbidden` holds plurals, or paths, that may not be listed; with a `token` all others are
    refused; `busy` requests are put off with 429 and `retry_after` seconds; of `lost` writes the
    answer is lost on its way. `writes` are method, path and content of what clients have changed;
    a job that is made is done at once. `signed` are the
    credentials that came, `waiting` counts requests that are being delayed, `asked` are method,
    path and Accept of all, `asked_at` their times (monotonic seconds), `put_off_at` that of the
    newest 429, `watches` are open, `objects` are by their path.
    """

    def __init__(self, tls: Path | None = None) -> None:
        self.failures: dict[str, int] = {}
        self.delays: dict[str, float] = {}
        self.forbidden: set[str] = set()
        self.token = ""
        self.signed: list[str] = []
        self.asked: list[tuple[str, str, str]] = []
        self.asked_at: list[float] = []
        self.put_off_at = 0.0
        self.busy = self.lost = 0
        self.writes: list[tuple[str, str, dict[str, Any]]] = []
        self.retry_after = 0
        self.waiting = 0
        self.watches: list[Watch] = []
        self.address = ""
        self.objects: dict[str, dict[str, Any]] = {}
        self._version = 10
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
        """TLS context of a client that trusts this server."""
        assert self._authority is not None
        return self._authority.client_context()

    def config(self, name: str, **labels: str) -> dict[str, Any]:
        """A ConfigMap."""
        meta = {"name": name, "namespace": "n", "labels": labels}
        return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}

    async def until(self, right: Callable[[], object]) -> None:
        """Let requests come until something holds."""
        async with asyncio.timeout(100):
            while not right():
                await asyncio.sleep(0.01)

    def _context(self) -> ssl.SSLContext | None:
        if self._authority is None:
            return None
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self._authority.certificate, self._authority.key)
        return context

    async def write(self, name: str, **data: str) -> None:
        """Changes a ConfigMap as another client; every watch gets the event."""
        path = f"/api/v1/namespaces/n/configmaps/{name}"
        self._put(path, self.objects.get(path, self.config(name)) | {"data": data})
        await self._tell(path)

    async def remove(self, name: str) -> None:
        """Deletes a ConfigMap as another client; every watch gets the event."""
        await self._delete(f"/api/v1/namespaces/n/configmaps/{name}")

    async def complain(self, code: int) -> None:
        """Ends all watches with an error event, like an expired resource version."""
        status = {"kind": "Status", "code": code, "message": "injected"}
        for watch in self.watches:
            await watch.tell({"type": "ERROR", "object": status})
        self.cut()

    def cut(self) -> None:
        """All watches break off, as when a load balancer or a token's end breaks them."""
        for watch in self.watches:
            watch.ended.set()

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.asked.append((request.method, request.path, request.headers.get("Accept", "")))
        self.asked_at.append(asyncio.get_running_loop().time())
        self.signed.append(request.headers.get("Authorization", ""))
        if self.token and self.signed[-1] != f"Bearer {self.token}":
            return _status(401, "Unauthorized")
        if self.busy and request.path != "/livez":
            self.busy -= 1
            self.put_off_at = self.asked_at[-1]
            return _status(429, "TooManyRequests", {"Retry-After": str(self.retry_after)})
        *_, last = request.path.split("/")
        if "watch" in request.query and not self.forbidden & {last, request.path}:
            return await self._watch(request, last)
        if last in self.delays:
            await self._delay(last)
        if last in self.failures:
            return _status(self.failures[last], "InternalError")
        answer = await self._carried_out(request, last)
        if self.lost and request.method != "GET":
            self.lost -= 1
            assert request.transport is not None
            request.transport.abort()
        return answer

    async def _carried_out(self, request: web.Request, last: str) -> web.Response:
        """Returns the response; watches get an event for the change."""
        body = await request.read()
        if request.method == "DELETE":
            return await self._deleted(request.path)
        answer = self._answer(request.method, request.path, last, body)
        if request.method == "PATCH" and answer.status == 200:
            await self._tell(request.path)
        return answer

    async def _deleted(self, path: str) -> web.Response:
        if path not in self.objects:
            return _status(404, "NotFound")
        self.writes.append(("DELETE", path, {}))
        return _json(await self._delete(path))

    async def _delete(self, path: str) -> dict[str, Any]:
        gone = self.objects.pop(path)
        self._version += 1
        stamp = {"resourceVersion": str(self._version)}
        last = gone | {"metadata": gone["metadata"] | stamp}
        for watch in self.watches:
            if f"/{watch.plural}/" in path:
                await watch.tell({"type": "DELETED", "object": last})
        return last

    async def _delay(self, name: str) -> None:
        self.waiting += 1
        try:
            async with asyncio.timeout(self.delays[name]):
                while name in self.delays:
                    await asyncio.sleep(0.02)
        except TimeoutError:
            pass
        finally:
            self.waiting -= 1

    async def _watch(self, request: web.Request, plural: str) -> web.StreamResponse:
        stream = web.StreamResponse(headers={"Content-Type": "application/json"})
        await stream.prepare(request)
        watch = Watch(plural, stream)
        self.watches.append(watch)
        for path, one in self.objects.items():
            known = int(request.query["resourceVersion"])
            if f"/{plural}/" in path and int(one["metadata"]["resourceVersion"]) > known:
                await watch.tell({"type": "MODIFIED", "object": one})
        try:
            await watch.ended.wait()
        finally:
            self.watches.remove(watch)
        return stream

    async def _tell(self, path: str) -> None:
        """A change of an object, to all who watch its kind."""
        for watch in self.watches:
            if f"/{watch.plural}/" in path:
                await watch.tell({"type": "MODIFIED", "object": self.objects[path]})

    def _put(self, path: str, one: dict[str, Any]) -> None:
        self._version += 1
        stamp = {"resourceVersion": str(self._version), "uid": f"uid-{path}"}
        self.objects[path] = one | {"metadata": one["metadata"] | stamp}

    def _answer(self, method: str, path: str, last: str, body: bytes) -> web.Response:
        if path == "/livez":
            return _json({})
        if path in ("/api", "/apis"):
            return _json(_groups() if path == "/api" else {"items": []})
        if path in _ROOTS:
            return _json({"resources": [_resource(plural) for plural in _KINDS]})
        if self.forbidden & {last, path}:
            return _status(403, "Forbidden")
        if method == "POST":
            return self._post(path, orjson.loads(body))
        if last in _KINDS:
            version = {"resourceVersion": str(self._version)}
            return _json({"metadata": version, "items": self._all(last)})
        if method == "PATCH":
            self._patch(path, orjson.loads(body))
        found = self.objects.get(path)
        return _json(found) if found is not None else _status(404, "NotFound")

    def _patch(self, path: str, one: dict[str, Any]) -> None:
        """Like a server-side apply: the same again writes nothing."""
        old = self.objects.get(path, {})
        if not old or any(old.get(part) != one[part] for part in one.keys() - {"metadata"}):
            self._put(path, one)
            self.writes.append(("PATCH", path, one))

    def _post(self, collection: str, one: dict[str, Any]) -> web.Response:
        path = f"{collection}/{one['metadata']['name']}"
        if path in self.objects:
            return _status(409, "AlreadyExists")
        self._put(path, one | {"status": _DONE})
        self.writes.append(("POST", path, one))
        return _json(self.objects[path])

    def _all(self, plural: str) -> list[dict[str, Any]]:
        return [one for path, one in self.objects.items() if f"/{plural}/" in path]


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
        if kind not in _OF_OTHER_GROUPS
    ]
    return {"items": [{"metadata": {}, "versions": [{"version": "v1", "resources": resources}]}]}


def _resource(plural: str) -> dict[str, Any]:
    return {"name": plural, "kind": _KINDS[plural], "namespaced": True}


def _json(body: object) -> web.Response:
    return web.Response(body=orjson.dumps(body), content_type="application/json")


def _status(code: int, reason: str, headers: dict[str, str] | None = None) -> web.Response:
    body = {"kind": "Status", "reason": reason, "message": f"injected: {reason}", "code": code}
    return web.Response(
        status=code, body=orjson.dumps(body), content_type="application/json", headers=headers
    )
