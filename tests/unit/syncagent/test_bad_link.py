"""Half an hour on a bad link, played in seconds: both ends agree, nothing is run twice."""

import asyncio
import random
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path
from typing import cast

import orjson
import pytest

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.sealing import SealingKey
from core.spec.bundle import Bundle, KubeObject, make_bundle
from core.spec.objects import ObjectRef
from core.spec.statements.attestation import TrustedKeys
from core.wire.v1 import agent_pb2 as pb
from syncagent.autonomy.inputs import InputVerifier
from syncagent.domain.ownership import HOOK_ANNOTATION
from syncagent.jobs.runner import JobRunner
from syncagent.link.commands import Commands
from syncagent.link.fetch import BundleTransfer
from syncagent.link.logs import LogQueue
from syncagent.link.reports import OutboxReports
from syncagent.link.session import LinkPorts, SyncSession
from syncagent.reconcile.engine import ReconcileEngine, ReconcilePorts
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.identities import AgeIdentities
from syncagent.state.jobs import SqliteJobStore
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from tests.fakes.clock import FakeClock
from tests.fakes.engine import AtOnce, config
from tests.fakes.fences import FakeFences, FakeJobFences
from tests.fakes.jobs import FakeJobCluster
from tests.fakes.kubernetes import FakeCluster
from tests.fakes.wire import RuleHub

SEED = 20_260_102
LENGTH_S, STEP_S = 1800.0, 0.5
DELAY_S, BYTES_A_SECOND = 0.25, 8000.0
CUT_S, WHOLE_S = (5.0, 60.0), (10.0, 120.0)
CHANGES, JOBS = 200, 10
SERVICES = [f"service-{number}" for number in range(8)]
JOB: KubeObject = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "spec": {"template": {"spec": {"containers": [{"name": "main", "image": "check"}]}}},
}


class Way:
    """One direction of the line: at its rate, then its delay; a cut loses what is under way."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._free_at = 0.0
        self._under_way: deque[tuple[float, pb.AgentMessage | pb.HubMessage]] = deque()

    @property
    def free(self) -> bool:
        return self._free_at <= self._clock.monotonic()

    def put(self, message: pb.AgentMessage | pb.HubMessage) -> None:
        start = max(self._free_at, self._clock.monotonic())
        self._free_at = start + message.ByteSize() / BYTES_A_SECOND
        self._under_way.append((self._free_at + DELAY_S, message))

    def arrived(self) -> list[pb.AgentMessage | pb.HubMessage]:
        found = []
        while self._under_way and self._under_way[0][0] <= self._clock.monotonic():
            found.append(self._under_way.popleft()[1])
        return found

    def cut(self) -> None:
        self._under_way.clear()
        self._free_at = 0.0


class FarHub(RuleHub):
    """The rules of a hub, at the other end of the line; it has bundles and jobs to give."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self.up, self.down = Way(clock), Way(clock)
        self.whole = asyncio.Event()
        self.whole.set()
        self.cuts = 0
        self.bundles: dict[str, Bundle] = {}

    def cut(self) -> None:
        super().cut()
        self.up.cut()
        self.down.cut()

    def bring(self, service: str, value: str) -> None:
        """The service is to have this value, once its hook has run."""
        hook = JOB | {
            "metadata": {"name": service, "annotations": {"towline.dev/hook": "pre-sync"}}
        }
        self.bundles[service] = make_bundle([config(service, value), hook])
        self.want(service)

    def run_job(self, command_id: str) -> None:
        run = pb.RunJob(namespace="ops", manifest=orjson.dumps(JOB), timeout_s=3600)
        self.commands[command_id] = pb.Command(id=command_id, run_job=run)
        self._send(pb.HubMessage(command=self.commands[command_id]))

    def move(self) -> None:
        """Sends frames with credit; delivers and commits due frames."""
        if self.call is None:
            return
        while self.up.free and not self.call.up.empty():
            self.up.put(self.call.up.get_nowait())
        for message in self.up.arrived():
            self.hear(cast(pb.AgentMessage, message))
        self.commit()
        for message in self.down.arrived():
            self.call.down.put_nowait(cast(pb.HubMessage, message))

    def _offer(self, service: str) -> None:
        bundle = self.bundles[service]
        spec = pb.ServiceSpec(
            name=service,
            namespace="prod",
            digest=bundle.digest,
            bundle_bytes=len(bundle.data),
            bundle=bundle.data,
        )
        sequence = self.desired[service]
        self._send(
            pb.HubMessage(desired=pb.Desired(service_id=service, sequence=sequence, spec=spec))
        )

    def _send(self, message: pb.HubMessage) -> None:
        if self.call is not None and self.call.alive:
            self.down.put(message)


class HookCluster(FakeCluster):
    """A cluster whose hooks end well at once; `hooks` counts how often each run was made."""

    def __init__(self) -> None:
        super().__init__()
        self.hooks: Counter[tuple[str, str]] = Counter()

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        live = await super().apply(ref, body, force=force, dry_run=dry_run)
        if ref.kind != "Job":
            return live
        self.hooks[ref.name, body["metadata"]["annotations"][HOOK_ANNOTATION]] += 1
        return self.put(live | {"status": {"conditions": [{"type": "Complete", "status": "True"}]}})


class Agent:
    """Engine, jobs, outbox and link, all real; the clusters and the line are not."""

    def __init__(self, folder: Path) -> None:
        self.clock = FakeClock()
        self.hub, self.cluster, self.jobs = FarHub(self.clock), HookCluster(), FakeJobCluster()
        self.database = Database(folder / "agent.db")
        self.outbox = SqliteOutbox(self.database, self.clock)
        self.fetcher, reports, key = (
            BundleTransfer(()),
            OutboxReports(self.outbox),
            SealingKey.generate(),
        )
        self.engine = ReconcileEngine(
            ReconcilePorts(
                self.cluster,
                FakeFences(self.cluster),
                BundleFiles(folder / "bundles"),
                self.fetcher,
                SqliteStateStore(self.database),
                reports,
                InputVerifier(TrustedKeys(())),
            ),
            self.clock,
            key,
            AgeIdentities(None),
        )
        memory = SqliteJobStore(self.database)
        self.runner = JobRunner(
            FakeJobFences(self.jobs),
            memory,
            reports,
            key,
            lambda refs: None,
            lambda *piece: None,
            self.clock,
        )
        self.sessions = 0

    async def stay_linked(self) -> None:
        """One session after another, whenever the line is whole."""
        while True:
            await self.hub.whole.wait()
            held = [pb.Held(service_id=id, sequence=at) for id, at in self.engine.stored_services()]
            hello = pb.Hello(
                lowest_protocol=1,
                highest_protocol=1,
                held=held,
                acknowledged=self.outbox.acknowledged(),
            )
            session = SyncSession(
                self.hub.sync(),
                hello,
                LinkPorts(
                    self.engine,
                    Commands(self.engine, self.runner),
                    self.outbox,
                    LogQueue(),
                    self.clock,
                ),
                offer=self.fetcher.offer,
            )
            self.sessions += 1
            with suppress(TowlineError):
                await session.send_hello()
                await session.run()
            session.close()
            await self.clock.sleep(1.0)

    async def step(self) -> None:
        """Half a second passes."""
        self.hub.move()
        for name in self.jobs.created:
            job = name.removeprefix("Job/")
            if ("Pod", f"{job}-pod") not in self.jobs.objects:
                self.jobs.runs(job)
                self.jobs.ends(job)
        await self.clock.advance(STEP_S)

    def stir(self, service: str, generation: int) -> bool:
        """Changes an object that the agent reports; returns whether it exists yet."""
        one = self.cluster.objects.get(("", "ConfigMap", "prod", service))
        if one is None:
            return False
        self.cluster.put(one | {"metadata": one["metadata"] | {"generation": generation}})
        return True

    def generations(self) -> dict[str, dict[str, int]]:
        """Expected inventory of each service."""
        return {
            key[3]: {key[3]: one["metadata"].get("generation", 0)}
            for key, one in self.cluster.objects.items()
            if key[1] == "ConfigMap"
        }

    @property
    def agreed(self) -> bool:
        """Whether nothing is left to be said in either direction."""
        last = {service: sequences[-1] for service, sequences in self.hub.statuses.items()}
        held = dict(self.engine.stored_services())
        known = self.hub.inventory == self.generations()
        return last == held == self.hub.desired and known and not self.hub.commands


@pytest.fixture
async def agent(tmp_path: Path) -> AsyncIterator[Agent]:
    asyncio.get_running_loop().set_default_executor(AtOnce())
    made, tasks = Agent(tmp_path), Tasks("test")
    made.engine.start()
    made.runner.start()
    tasks.forever("link", made.stay_linked())
    yield made
    await tasks.stop()
    await made.runner.stop()
    await made.engine.stop()
    made.database.close()


def break_now_and_then(hub: FarHub, chance: random.Random, now: float, turn_at: float) -> float:
    """Cut the line, or mend it, when it is time; when that is next."""
    if now < turn_at:
        return turn_at
    if hub.whole.is_set():
        hub.whole.clear()
        hub.cut()
        hub.cuts += 1
        return now + chance.uniform(*CUT_S)
    hub.whole.set()
    return now + chance.uniform(*WHOLE_S)


async def test_both_ends_agree_after_half_an_hour_on_a_bad_link(agent: Agent) -> None:
    """200 changes each way: the same at both ends, in order, each hook and each job run once."""
    chance, hub = random.Random(SEED), agent.hub
    times = sorted(chance.uniform(0, LENGTH_S) for _ in range(CHANGES))
    turn_at, stirred = chance.uniform(*WHOLE_S), 0
    for turn in range(int(LENGTH_S / STEP_S)):
        now = turn * STEP_S
        turn_at = break_now_and_then(hub, chance, now, turn_at)
        while times and times[0] <= now:
            del times[0]
            hub.bring(chance.choice(SERVICES), f"{now}")
            if len(times) % (CHANGES // JOBS) == 0:
                hub.run_job(f"job-{len(times)}")
        if stirred < CHANGES and now * CHANGES / LENGTH_S > stirred - 20:
            stirred += agent.stir(chance.choice(SERVICES), turn)
        await agent.step()
    hub.whole.set()
    for _ in range(400):
        if agent.agreed:
            break
        await agent.step()
    assert agent.agreed and sum(hub.desired.values()) == CHANGES
    assert hub.cuts >= 10 and agent.sessions > hub.cuts // 2 and stirred == CHANGES
    assert all(sequences == sorted(sequences) for sequences in hub.statuses.values())
    assert len(agent.jobs.created) == len(set(agent.jobs.created)) == JOBS
    assert agent.cluster.hooks and set(agent.cluster.hooks.values()) == {1}
