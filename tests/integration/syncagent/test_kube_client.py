"""The client against an API server that misbehaves on purpose."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest
from aiohttp import web

from core.errors import Unavailable
from core.runtime.tasks import Tasks
from core.spec.objects import GroupVersionKind, ObjectRef
from syncagent.domain.events import ObjectGone, ObjectSeen, Observation, WatchListed
from syncagent.kube.access import ApiServerAccess, from_kubeconfig, in_cluster
from syncagent.kube.client import KubeClient
from syncagent.kube.cluster import KubeCluster
from syncagent.ports import RequestRefused
from tests.fakes.clock import FakeClock

API = GroupVersionKind("", "v1", "ConfigMap")
REF = ObjectRef("", "v1", "ConfigMap", "n", "c")


class Server:
    """Answers requests with what was put in `answers`, in order; remembers them."""

    def __init__(self) -> None:
        self.answers: deque[web.Response] = deque()
        self.asked: list[tuple[str, str, str]] = []

    async def handle(self, request: web.Request) -> web.Response:
        if request.path == "/api/v1":
            kinds = {"configmaps": "ConfigMap", "pods": "Pod"}
            resources = [{"name": n, "kind": k, "namespaced": True} for n, k in kinds.items()]
            return answer({"resources": resources})
        signed = request.headers.get("Authorization", "")
        self.asked.append((request.method, str(request.rel_url), signed))
        return self.answers.popleft() if self.answers else answer({})


def answer(body: object, status: int = 200, **headers: str) -> web.Response:
    return web.Response(status=status, body=orjson.dumps(body), headers=headers)


def status(code: int, reason: str, **headers: str) -> web.Response:
    return answer({"kind": "Status", "reason": reason, "message": f"so {reason}"}, code, **headers)


def config(name: str, version: int) -> dict:
    meta = {"name": name, "namespace": "n", "resourceVersion": str(version)}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}


def watch(*events: tuple[str, dict]) -> web.Response:
    lines = [orjson.dumps({"type": kind, "object": one}) + b"\n" for kind, one in events]
    return web.Response(body=b"".join(lines))


@pytest.fixture
async def server() -> AsyncIterator[tuple[Server, KubeCluster, FakeClock]]:
    """The server and a client of it, on a clock that the test moves."""
    handler, clock = Server(), FakeClock()
    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", handler.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    host, port = runner.addresses[0][:2]
    client = KubeClient(ApiServerAccess(f"http://{host}:{port}", None), clock)
    yield handler, KubeCluster(client, clock), clock
    await client.close()
    await runner.cleanup()


async def until(clock: FakeClock, right) -> None:
    """Let real requests run and the fake time pass until something holds."""
    for _ in range(300):
        if right():
            return
        await pause()
        await clock.advance(0.5)
    raise AssertionError("never")


async def pause() -> None:
    """A moment of real time for sockets."""
    await asyncio.sleep(0.01)


async def test_retry_after_is_honoured(server) -> None:
    """A 429 holds requests back for at least the time asked for, then they succeed."""
    handler, cluster, clock = server
    handler.answers += [status(429, "TooManyRequests", **{"Retry-After": "7"}), answer({"ok": 1})]
    tasks = Tasks("test")
    asking = tasks.spawn("ask", cluster.get(REF))
    await until(clock, lambda: clock.sleepers or asking.done())
    before = clock.monotonic()
    await until(clock, asking.done)
    assert await asking == {"ok": 1}
    assert clock.monotonic() - before >= 6.5
    await tasks.stop()


async def test_errors_are_in_the_servers_words(server) -> None:
    """Refusals carry reason and message; trouble of the server is Unavailable."""
    handler, cluster, _ = server
    handler.answers += [status(422, "Invalid"), status(500, "InternalError"), status(401, "No")]
    with pytest.raises(RequestRefused, match="so Invalid") as refused:
        await cluster.apply(REF, {}, force=True)
    assert (refused.value.status, refused.value.reason) == (422, "Invalid")
    with pytest.raises(RequestRefused, match="so InternalError"):
        await cluster.apply(REF, {}, force=True)
    with pytest.raises(Unavailable, match="credentials"):
        await cluster.get(REF)


async def test_an_object_of_the_wrong_form_is_invalid(server) -> None:
    """The API server answers with 500 and no reason for a mistyped field."""
    handler, cluster, _ = server
    message = "failed to create typed patch object (n/c): .spec.replica: field not declared"
    handler.answers.append(answer({"kind": "Status", "message": message}, 500))
    with pytest.raises(RequestRefused, match="replica: field not declared") as refused:
        await cluster.apply(REF, {}, force=True)
    assert refused.value.reason == "Invalid"


async def test_an_absent_server_is_unavailable() -> None:
    """Connection refused is named."""
    client = KubeClient(ApiServerAccess("http://127.0.0.1:1", None), FakeClock())
    with pytest.raises(Unavailable, match="cannot reach the API server: 127.0.0.1"):
        await client.request("GET", "/version")
    await client.close()


async def test_a_watch_goes_on_and_lists_anew_after_410(server) -> None:
    """Pages are followed, bookmarks move the place, 410 leads to a fresh list."""
    handler, cluster, clock = server
    expired = {"kind": "Status", "code": 410, "message": "too old"}
    handler.answers += [
        answer({"metadata": {"continue": "more"}, "items": [config("a", 1)]}),
        answer({"metadata": {"resourceVersion": "5"}, "items": [config("b", 2)]}),
        watch(("MODIFIED", config("a", 6)), ("BOOKMARK", config("", 9))),
        watch(("DELETED", config("a", 10)), ("ERROR", expired)),
        answer({"metadata": {"resourceVersion": "20"}, "items": [config("b", 2)]}),
    ]
    seen: list[Observation] = []
    tasks = Tasks("test")
    tasks.forever("follow", cluster.follow(API, "", "mark", seen.append))
    await until(clock, lambda: len(seen) >= 7)
    await tasks.stop()
    assert [type(one) for one in seen[:7]] == [
        ObjectSeen,
        ObjectSeen,
        WatchListed,
        ObjectSeen,
        ObjectGone,
        ObjectSeen,
        WatchListed,
    ]
    assert seen[2].keys == {("", "ConfigMap", "n", "a"), ("", "ConfigMap", "n", "b")}
    assert (seen[2].version, seen[6].version) == (5, 20)
    places = [url.split("resourceVersion=")[1].split("&")[0] for _, url, _ in handler.asked[2:4]]
    assert places == ["5", "9"]


async def test_the_end_of_a_log_comes_in_whole_lines(server) -> None:
    """A line that was cut may hold half a secret, which nobody would mask."""
    handler, cluster, _ = server
    pod, line = ObjectRef("", "v1", "Pod", "n", "p"), "x" * 1000
    for body in ("one\ntwo", f"{line}\n" * 40, ""):
        handler.answers.append(web.Response(body=body.encode()))
    said = [await cluster.log_tail(pod, "", previous=True) for _ in range(3)]
    assert said == ["one\ntwo", f"{line}\n" * 32, ""]


async def test_kubeconfigs(tmp_path: Path) -> None:
    """Token, token file and exec plugin; the chosen context; none of them in the repr."""
    (tmp_path / "token").write_text("from-file\n")
    plugin = {
        "command": "/bin/sh",
        "args": ["-c", 'printf \'{"status":{"token":"from-plugin"}}\''],
        "apiVersion": "client.authentication.k8s.io/v1",
    }
    users = {"a": {"token": "plain"}, "b": {"tokenFile": "token"}, "c": {"exec": plugin}}
    config = {
        "current-context": "a",
        "clusters": [{"name": "k", "cluster": {"server": "http://127.0.0.1:1/"}}],
        "users": [{"name": name, "user": user} for name, user in users.items()],
        "contexts": [{"name": n, "context": {"cluster": "k", "user": n}} for n in users],
    }
    path = tmp_path / "kubeconfig"
    path.write_bytes(orjson.dumps(config))
    tokens = []
    for context in (None, "b", "c"):
        access = from_kubeconfig(path, context, FakeClock())
        tokens.append((await access.headers())["Authorization"])
        assert access.server == "http://127.0.0.1:1" and not access.certified
        assert "plain" not in repr(access)
    assert tokens == ["Bearer plain", "Bearer from-file", "Bearer from-plugin"]


async def test_the_service_account_is_read_again(tmp_path: Path, cluster) -> None:
    """Kubernetes renews the token in place; a minute later the new one is used."""
    authority = next((cluster.folder / "certificates").glob("ca.*crt"), None)
    authority = authority or next((cluster.folder / "certificates").glob("*ca*"))
    (tmp_path / "ca.crt").write_bytes(authority.read_bytes())
    (tmp_path / "token").write_text("one")
    clock = FakeClock()
    environ = {"KUBERNETES_SERVICE_HOST": "::1", "KUBERNETES_SERVICE_PORT": "443"}
    access = in_cluster(clock, environ, tmp_path)
    assert access.server == "https://[::1]:443"
    assert (await access.headers())["Authorization"] == "Bearer one"
    (tmp_path / "token").write_text("two")
    assert (await access.headers())["Authorization"] == "Bearer one"
    await clock.advance(61)
    assert (await access.headers())["Authorization"] == "Bearer two"


async def test_a_write_under_way_ends_when_nothing_may_change() -> None:
    """It does not wait for the API server; reads go on."""
    frozen, arrived = list[str](), asyncio.Event()

    async def slow(request: web.Request) -> web.Response:
        if request.method != "GET":
            arrived.set()
            await asyncio.sleep(3600)
        return answer({"kind": "ConfigMap"})

    def check_write() -> None:
        if frozen:
            raise Unavailable(frozen[0])

    app = web.Application()
    app.router.add_route("*", "/{rest:.*}", slow)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    access = ApiServerAccess(f"http://127.0.0.1:{runner.addresses[0][1]}", None, None)
    client, tasks = KubeClient(access, FakeClock(), check_write=check_write), Tasks("test")
    writing = tasks.spawn("write", client.request("PATCH", "/api/v1/x", body={}))
    await arrived.wait()
    frozen.append("the cluster is frozen")
    client.interrupt_writes()
    async with asyncio.timeout(5):
        with pytest.raises(Unavailable, match="frozen"):
            await writing
    with pytest.raises(Unavailable, match="frozen"):
        await client.request("DELETE", "/api/v1/x")
    assert await client.request("GET", "/api/v1/x") == {"kind": "ConfigMap"}
    await client.close()
    await runner.cleanup()
    await tasks.stop()
