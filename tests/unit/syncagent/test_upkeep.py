"""The agent's health pages, its rules on upgrades, and the step back when one fails."""

import asyncio
from copy import deepcopy
from typing import Any

import aiohttp
import pytest

from core.errors import Invalid, TowlineError, Unavailable
from core.spec.jobs import JobSpec
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from syncagent.domain.objects import KubeObject
from syncagent.ports import RequestRefused
from syncagent.upkeep.status_server import StatusServer, Vitals
from syncagent.upkeep.upgrade import AgentDeployment, Upgrader, name_of_image, replace_image
from tests.fakes.clock import FakeClock, settle

HOME = AgentDeployment("towline", "agent", frozenset({"registry.example/towline"}))
OLD, NEW = "registry.example/towline:1.0", "registry.example/towline:1.1"
AGENT = {
    "name": "agent",
    "image": OLD,
    "args": ["agent", "--url=hub:8444", "--token-file=/t", "--log-level=info"],
    "env": [{"name": "HOME", "value": "/tmp"}],
}


class Cluster:
    """One Deployment whose pods become ready only with images in `working`."""

    def __init__(self, working: set[str]) -> None:
        self.working = working
        self.history: list[str] = []
        self.away: dict[float, TowlineError] = {}
        self.asked = 0
        side = {"name": "side", "image": "side:1"}
        pod = {"serviceAccountName": "agent", "containers": [side, deepcopy(AGENT)]}
        self.live: KubeObject | None = {
            "metadata": {"generation": 1, "resourceVersion": "1"},
            "spec": {"replicas": 1, "template": {"spec": pod}},
            "status": {},
        }

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        assert ref == HOME.ref
        self._answer()
        return deepcopy(self.live)

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        assert self.live is not None
        self._answer()
        if patch["metadata"]["resourceVersion"] != self.live["metadata"]["resourceVersion"]:
            raise RequestRefused("changed meanwhile", status=409, reason="Conflict")
        containers = patch["spec"]["template"]["spec"]["containers"]
        assert [one["name"] for one in containers] == ["side", "agent"]
        self.live["spec"]["template"]["spec"]["containers"] = containers
        self.live["metadata"]["generation"] += 1
        image = containers[1]["image"]
        self.history.append(image)
        works = int(image in self.working)
        self.live["status"] = {
            "observedGeneration": self.live["metadata"]["generation"],
            "replicas": 1,
            "updatedReplicas": 1,
            "availableReplicas": works,
        }

    def _answer(self) -> None:
        """Fail at the requests that are to fail, counted from 1."""
        self.asked += 1
        if (error := self.away.get(self.asked)) is not None:
            raise error


class Asked:
    """Jobs and answers."""

    def __init__(self) -> None:
        self.jobs: list[JobSpec] = []
        self.answers: list[CommandAnswer] = []

    def run(self, spec: JobSpec) -> None:
        self.jobs.append(spec)

    def cancel(self, command_id: str, job_id: str) -> None:
        raise AssertionError("not asked for")

    def done(self, done: CommandAnswer) -> None:
        self.answers.append(done)


async def replaced(cluster: Cluster, clock: FakeClock) -> Any:
    work = asyncio.ensure_future(replace_image(cluster, HOME.ref, NEW, OLD, clock))
    await clock.advance(700)
    await settle()
    return await work


async def test_a_version_that_connects_stays() -> None:
    cluster = Cluster({OLD, NEW})
    assert "has connected" in await replaced(cluster, FakeClock())
    assert cluster.history == [NEW]


async def test_a_version_that_does_not_connect_is_taken_back() -> None:
    """Other containers of the pod stay as they are, both times."""
    cluster = Cluster({OLD})
    with pytest.raises(Invalid, match=f"is back at {OLD}"):
        await replaced(cluster, FakeClock())
    assert cluster.history == [NEW, OLD]


FAULT = RequestRefused("a fault", status=500, reason="InternalError")
AWAY = Unavailable("cannot reach the API server")


@pytest.mark.parametrize("error", [AWAY, FAULT])
@pytest.mark.parametrize("works", [True, False])
async def test_no_hiccup_of_the_api_server_leaves_an_upgrade_half_done(
    error: TowlineError, works: bool
) -> None:
    """At whichever requests: a version that works stays, another is taken back."""
    for failing in ({1}, {2}, {3, 4, 5}, {102, 103, 104}, {1, 2, 102}, set(range(3, 103))):
        cluster = Cluster({OLD, NEW} if works else {OLD})
        cluster.away = dict.fromkeys(failing, error)
        try:
            await replaced(cluster, FakeClock())
            assert cluster.history == [NEW] and works
        except Invalid:
            assert cluster.history == [NEW, OLD]


async def test_a_refused_upgrade_keeps_the_old_image() -> None:
    cluster = Cluster({OLD})
    cluster.away = {2: RequestRefused("not you", status=403, reason="Forbidden")}
    with pytest.raises(Invalid, match="could not be installed: not you"):
        await replaced(cluster, FakeClock())
    assert cluster.history == []


async def test_an_upgrade_waits_for_an_api_server_that_is_away() -> None:
    """Asked for twice meanwhile, it is begun once, and is not refused."""
    cluster, asked, clock = Cluster(set()), Asked(), FakeClock()
    cluster.away = {1: AWAY, 2: FAULT}
    upgrader = Upgrader(HOME, cluster, asked, asked, clock)
    for _ in range(2):
        upgrader.upgrade("c", "1.1", NEW)
        await settle()
    await clock.advance(10)
    await upgrader.stop()
    assert len(asked.jobs) == 1 and asked.answers == []


async def upgraded(home: AgentDeployment | None, cluster: Cluster, image: str) -> Asked:
    asked = Asked()
    upgrader = Upgrader(home, cluster, asked, asked, FakeClock())
    upgrader.upgrade("c", "1.1", image)
    await settle()
    await upgrader.stop()
    return asked


async def test_an_upgrade_is_a_job_with_a_canary_of_the_new_image() -> None:
    """The canary runs the new image and changes nothing; the old one does the work after it."""
    (spec,) = (await upgraded(HOME, Cluster(set()), NEW)).jobs
    assert spec.own and spec.namespace == "towline" and spec.command_id == "c"
    pod = spec.manifest["spec"]["template"]["spec"]
    canary, change = pod["initContainers"][0], pod["containers"][0]
    assert (canary["image"], change["image"]) == (NEW, OLD)
    assert canary["command"][:3] == ["towline", "agent", "doctor"]
    assert canary["command"][3:] == ["--url=hub:8444", "--token-file=/t"]
    assert change["command"][-2:] == [f"--image={NEW}", f"--back-to={OLD}"]
    assert canary["env"] == AGENT["env"]
    assert pod["serviceAccountName"] == "agent"


@pytest.mark.parametrize(
    ("home", "image", "why"),
    [
        (None, NEW, "not configured"),
        (HOME, "evil.example/towline:1.1", "do not allow"),
        (HOME, "registry.example/towline-evil:1.1", "do not allow"),
        (AgentDeployment("towline", "agent", frozenset()), NEW, "allowed: none"),
    ],
)
async def test_an_upgrade_that_the_operator_forbids_is_refused(
    home: AgentDeployment | None, image: str, why: str
) -> None:
    asked = await upgraded(home, Cluster(set()), image)
    assert asked.jobs == [] and asked.answers[0].outcome is CommandOutcome.REFUSED
    assert why in asked.answers[0].message


async def test_a_deployment_that_is_gone_is_said() -> None:
    cluster = Cluster(set())
    cluster.live = None
    assert "does not exist" in (await upgraded(HOME, cluster, NEW)).answers[0].message


def test_names_of_images_have_no_tag_digest_or_port() -> None:
    for image, name in (
        ("towline", "towline"),
        ("towline:1", "towline"),
        ("host:5000/a/towline", "host:5000/a/towline"),
        ("host:5000/a/towline:1@sha256:00", "host:5000/a/towline"),
    ):
        assert name_of_image(image) == name


async def test_health_pages_tell_what_the_kubelet_and_prometheus_ask() -> None:
    """Alive at once; ready once it has reached the control plane and its disk takes what it has."""
    now = Vitals(False, False, 3, 7, 1)
    pages = StatusServer("127.0.0.1:0", lambda: now)
    await pages.start()
    async with aiohttp.ClientSession(f"http://127.0.0.1:{pages.port}") as session:

        async def get(path: str) -> tuple[int, str]:
            async with session.get(path) as answer:
                return answer.status, await answer.text()

        assert await get("/healthz") == (200, "ok\n")
        assert (await get("/readyz"))[0] == 503
        now = Vitals(False, True, 3, 7, 1)
        assert await get("/readyz") == (200, "ok\n")
        now = Vitals(True, True, 3, 7, 1, "database or disk is full")
        assert await get("/readyz") == (503, "database or disk is full\n")
        _, metrics = await get("/metrics")
        assert "towline_agent_waiting_reports 7.0" in metrics
        assert "towline_agent_connected 1.0" in metrics
    await pages.stop()


async def exchange(port: int, request: bytes) -> bytes:
    """Sends bytes to the health pages and returns all that they send until the end."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(request)
    answer = await reader.read()
    writer.close()
    await writer.wait_closed()
    return answer


async def test_health_pages_serve_nothing_else() -> None:
    """Another path or method, half a request and a head without end are no way in."""
    pages = StatusServer("127.0.0.1:0", lambda: Vitals(True, True, 0, 0, 0))
    await pages.start()
    head = b" HTTP/1.1\r\nHost: agent\r\n\r\n"
    for line in (b"GET /", b"GET /healthz/", b"POST /healthz", b"\xff", b""):
        assert (await exchange(pages.port, line + head)).startswith(b"HTTP/1.1 404 ")
    assert await exchange(pages.port, b"GET /healthz HTTP/1.1\r\nA: " + bytes(20_000) + head) == b""
    for target in (b"/healthz", b"/healthz?verbose"):
        assert (await exchange(pages.port, b"GET " + target + head)).endswith(b"\r\n\r\nok\n")
    await pages.stop()


async def test_a_port_in_use_is_named() -> None:
    pages = StatusServer("127.0.0.1:0", lambda: Vitals(True, True, 0, 0, 0))
    await pages.start()
    second = StatusServer(f"127.0.0.1:{pages.port}", lambda: Vitals(True, True, 0, 0, 0))
    with pytest.raises(Unavailable, match=f"cannot listen on 127.0.0.1:{pages.port}: .*in use"):
        await second.start()
    await second.stop()
    await pages.stop()


def test_an_odd_address_is_refused() -> None:
    for listen in ("8080", ":8080", "host:port", "host:70000"):
        with pytest.raises(Invalid, match="address to listen on"):
            StatusServer(listen, lambda: Vitals(False, False, 0, 0, 0))
