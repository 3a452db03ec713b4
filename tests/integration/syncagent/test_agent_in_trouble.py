"""The whole agent while its API server fails, its link breaks and others write; equal ends.

`AGENT_TROUBLE=7` plays another order. What the server has written down is judged apart from
everything that the agent remembers.
"""

import asyncio
import os
import random
from collections import Counter, defaultdict
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import orjson
import pytest

from core.spec.bundle import KubeObject
from core.wire.v1 import agent_pb2 as pb
from syncagent.compose import build
from syncagent.domain.ownership import HOOK_ANNOTATION
from syncagent.settings import HubSettings, KubernetesSettings, Settings, StateSettings
from tests.fakes.badline import BadLine
from tests.fakes.faulty import FaultyServer
from tests.fakes.hub import TOKEN, FakeHub

SEED = int(os.environ.get("AGENT_TROUBLE", "1"))
SERVICES = ("a", "b", "c")
TURNS = 60
APART_S = (0.01, 0.08)
CONFIGS = "/api/v1/namespaces/n/configmaps/"
JOBS = "/apis/batch/v1/namespaces/n/jobs/"


@dataclass
class Play:
    """Hub, line and server, what is wanted by now, and everything that may happen."""

    hub: FakeHub
    line: BadLine
    server: FaultyServer
    token: Path
    chance: random.Random
    wanted: dict[str, dict[str, str]] = field(default_factory=dict)
    versions: Counter[str] = field(default_factory=Counter)
    jobs: list[str] = field(default_factory=list)

    def want(self) -> None:
        """A service is to have other objects, after a hook of this version."""
        service = self.chance.choice(SERVICES)
        self.versions[service] += 1
        version = str(self.versions[service])
        names = [f"{service}{number}" for number in range(self.chance.randint(1, 4))]
        self.wanted[service] = dict.fromkeys(names, version)
        hook = config(f"{service}-hook", version, **{"towline.dev/hook": "pre-sync"})
        objects = [config(name, version) for name in names]
        self.hub.want(service, [hook, *objects], namespace="n", options={"deletion_budget": 100})

    async def spoil(self) -> None:
        if name := self._any():
            await self.server.write(name, v="foreign")

    async def delete(self) -> None:
        if name := self._any():
            await self.server.remove(name)

    def run(self) -> None:
        self.jobs.append(f"job{len(self.jobs)}")

    def be_busy(self) -> None:
        self.server.busy, self.server.retry_after = 2, 1

    def fail(self) -> None:
        self.server.failures[self.chance.choice(SERVICES) + "0"] = 500

    def be_slow(self) -> None:
        self.server.delays[self.chance.choice(SERVICES) + "1"] = 0.3

    def lose(self) -> None:
        self.server.lost += 1

    async def forget(self) -> None:
        await self.server.complain(410)

    async def stumble(self) -> None:
        await self.server.complain(500)

    def break_watches(self) -> None:
        self.server.cut()

    def renew(self) -> None:
        """From now on only another token is taken."""
        self.server.token = f"token-{self.chance.randrange(10**9)}"
        self.token.write_text(self.server.token)
        self.server.cut()

    def break_link(self) -> None:
        self.line.cut()

    def calm(self) -> None:
        self.server.failures.clear()
        self.server.delays.clear()
        self.server.busy = self.server.lost = 0

    async def turn(self) -> None:
        """One thing happens; words and calm more often than each trouble."""
        troubles = (
            self.be_busy, self.fail, self.be_slow, self.lose, self.forget, self.stumble,
            self.break_watches, self.renew, self.break_link,
        )  # fmt: skip
        others = (self.spoil, self.delete, self.run, self.calm)
        happening = self.chance.choice((*[self.want] * 6, *others * 2, *troubles))()
        if happening is not None:
            await happening

    async def ask_for_jobs(self) -> None:
        """Like a hub: repeats each job until there is an answer."""
        while True:
            if self.hub.hellos:
                for id in self.jobs:
                    if id not in self.hub.results():
                        self.hub.send(pb.HubMessage(command=pb.Command(id=id, run_job=job())))
            await asyncio.sleep(0.3)

    def is_over(self) -> bool:
        """Whether the desired state is applied and reported, and all jobs are answered."""
        return all(self._is_well(service) for service in self.wanted) and (
            set(self.jobs) == self.hub.results().keys()
        )

    def live(self) -> dict[str, str]:
        """The versions of all objects that are kept as wanted, by name."""
        return {
            path.removeprefix(CONFIGS): one["data"]["v"]
            for path, one in self.server.objects.items()
            if path.startswith(CONFIGS) and not path.endswith("-hook")
        }

    def _is_well(self, service: str) -> bool:
        status, wanted = self.hub.status(service), self.wanted[service]
        reported = {name for _, name in self.hub.components(service)}
        here = {name: v for name, v in self.live().items() if name.startswith(service)}
        return (
            status is not None
            and status.sequence == self.hub.desired[service].sequence
            and status.phase == pb.PHASE_HEALTHY
            and here == wanted
            and reported == wanted.keys()
        )

    def _any(self) -> str:
        return self.chance.choice([*self.live(), ""])


def config(name: str, version: str, **annotations: str) -> KubeObject:
    metadata = {"name": name, "annotations": annotations}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"v": version}}


def job() -> pb.RunJob:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    body = {"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": {"template": template}}
    return pb.RunJob(namespace="n", manifest=orjson.dumps(body), timeout_s=600)


@pytest.fixture
async def play(tmp_path: Path) -> AsyncIterator[Play]:
    """A running agent whose server and link are at the test's mercy."""
    token = tmp_path / "token"
    token.write_text("token-0")
    async with (
        FaultyServer() as server,
        FakeHub() as hub,
        BadLine(hub.port, delay=0, rate=1e9) as bad,
    ):
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_bytes(orjson.dumps(kubeconfig_for(server.address, token)))
        settings = Settings(
            HubSettings(f"http://127.0.0.1:{bad.port}", TOKEN),
            KubernetesSettings(kubeconfig),
            StateSettings(tmp_path / "state"),
        )
        stop, agent = asyncio.Event(), build(settings)
        async with asyncio.TaskGroup() as group:
            group.create_task(agent.run(stop))
            yield Play(hub, bad, server, token, random.Random(SEED))
            stop.set()


def kubeconfig_for(server: str, token: Path) -> dict[str, object]:
    named = {"context": {"cluster": "x", "user": "x"}, "name": "x"}
    return {
        "current-context": "x",
        "contexts": [named],
        "clusters": [{"name": "x", "cluster": {"server": server}}],
        "users": [{"name": "x", "user": {"tokenFile": str(token)}}],
    }


async def test_ends_are_equal_after_any_trouble(play: Play) -> None:
    """Each object's versions only grow; no hook and no job is carried out twice."""
    await play.hub.until(lambda: play.hub.hellos)
    play.server.token = "token-0"
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(play.ask_for_jobs())
        for _ in range(TURNS):
            await play.turn()
            await asyncio.sleep(play.chance.uniform(*APART_S))
        play.calm()
        await play.server.until(play.is_over)
        asking.cancel()
    judge(play)


def judge(play: Play) -> None:
    """By what clients have written, in the order in which the server took it."""
    written: dict[str, list[int]] = defaultdict(list)
    hooks: Counter[tuple[str, str]] = Counter()
    jobs: Counter[str] = Counter()
    for verb, path, one in play.server.writes:
        if verb == "POST":
            jobs[one["metadata"]["name"]] += 1
        elif verb == "PATCH" and path.startswith(CONFIGS):
            version = one["data"]["v"]
            if HOOK_ANNOTATION in one["metadata"]["annotations"]:
                hooks[path, version] += 1
            else:
                written[path].append(int(version))
    assert len(written) > len(SERVICES)
    assert all(versions == sorted(versions) for versions in written.values()), written
    assert set(hooks.values()) == {1}, hooks
    last = {(f"{CONFIGS}{service}-hook", str(play.versions[service])) for service in play.wanted}
    assert last <= hooks.keys()
    assert len(jobs) == len(play.jobs) and set(jobs.values()) <= {1}, jobs
