"""The agent's health pages, its rules on upgrades, and the step back when one fails."""

import asyncio
from copy import deepcopy
from typing import Any

import aiohttp
import pytest

from fleet.errors import Invalid
from syncagent.domain.events import CommandDone, Outcome
from syncagent.domain.jobs import JobSpec
from syncagent.domain.objects import KubeObject, ObjectRef
from syncagent.upkeep.pages import Pages, Vitals
from syncagent.upkeep.upgrade import Home, Upgrader, name_of_image, replace_image
from tests.fakes.clock import FakeClock, settle

HOME = Home("towline", "agent", frozenset({"registry.example/towline"}))
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
        side = {"name": "side", "image": "side:1"}
        pod = {"serviceAccountName": "agent", "containers": [side, deepcopy(AGENT)]}
        self.live: KubeObject | None = {
            "metadata": {"generation": 1},
            "spec": {"replicas": 1, "template": {"spec": pod}},
            "status": {},
        }

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        assert ref == HOME.ref
        return deepcopy(self.live)

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        assert self.live is not None
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


class Asked:
    """Jobs and answers."""

    def __init__(self) -> None:
        self.jobs: list[JobSpec] = []
        self.answers: list[CommandDone] = []

    def run(self, spec: JobSpec) -> None:
        self.jobs.append(spec)

    def cancel(self, command_id: str, job_id: str) -> None:
        raise AssertionError("not asked for")

    def done(self, done: CommandDone) -> None:
        self.answers.append(done)


async def replaced(cluster: Cluster, clock: FakeClock) -> Any:
    work = asyncio.ensure_future(replace_image(cluster, HOME.ref, NEW, clock))
    await clock.advance(400)
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


async def upgraded(home: Home | None, cluster: Cluster, image: str) -> Asked:
    asked = Asked()
    upgrader = Upgrader(home, cluster, asked, asked)
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
    assert f"--image={NEW}" in change["command"] and canary["env"] == AGENT["env"]
    assert pod["serviceAccountName"] == "agent"


@pytest.mark.parametrize(
    ("home", "image", "why"),
    [
        (None, NEW, "not told"),
        (HOME, "evil.example/towline:1.1", "do not let"),
        (HOME, "registry.example/towline-evil:1.1", "do not let"),
        (Home("towline", "agent", frozenset()), NEW, "allowed: none"),
    ],
)
async def test_what_the_operator_did_not_allow_replaces_nothing(
    home: Home | None, image: str, why: str
) -> None:
    asked = await upgraded(home, Cluster(set()), image)
    assert asked.jobs == [] and asked.answers[0].outcome is Outcome.REFUSED
    assert why in asked.answers[0].message


async def test_a_deployment_that_is_gone_is_said() -> None:
    cluster = Cluster(set())
    cluster.live = None
    assert "there is no" in (await upgraded(HOME, cluster, NEW)).answers[0].message


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
    pages = Pages("127.0.0.1:0", lambda: now)
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
        assert "towline_agent_linked 1.0" in metrics
    await pages.stop()


def test_an_odd_address_is_refused() -> None:
    for listen in ("8080", ":8080", "host:port", "host:70000"):
        with pytest.raises(Invalid, match="address to listen on"):
            Pages(listen, lambda: Vitals(False, False, 0, 0, 0))
