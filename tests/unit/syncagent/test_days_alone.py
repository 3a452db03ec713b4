"""Three days without a control plane, played in seconds: healed all along, and nothing piles up."""

import asyncio
import heapq
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from core.errors import Unavailable
from core.sealing import SealingKey
from core.spec.bundle import KubeObject, make_bundle
from core.spec.desired import BundleSpec, Desired
from core.spec.statements.attestation import TrustedKeys
from core.wire.v1 import agent_pb2 as pb
from syncagent.autonomy.inputs import InputVerifier
from syncagent.kube.access import from_kubeconfig
from syncagent.link.fetch import BundleTransfer
from syncagent.link.reports import OutboxReports
from syncagent.reconcile.engine import ReconcileEngine, ReconcilePorts
from syncagent.state.bundles import BundleFiles
from syncagent.state.database import Database
from syncagent.state.identities import AgeIdentities
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from tests.fakes.clock import FakeClock, settle
from tests.fakes.engine import AtOnce, config
from tests.fakes.fences import FakeFences
from tests.fakes.kubernetes import FakeCluster

DAY_S, STEP_S, HOUR_S = 86_400, 900, 3600
NAMES = [f"c{number}" for number in range(8)]
CRON: KubeObject = {
    "apiVersion": "batch/v1",
    "kind": "CronJob",
    "metadata": {"name": "nightly", "namespace": "prod"},
    "spec": {},
}


class LeapingClock(FakeClock):
    """A sleeper wakes once, at the end of a leap."""

    async def leap(self, seconds: float) -> None:
        await settle()
        self._elapsed += seconds
        due = [one for one in self._sleepers if one[0] <= self._elapsed]
        self._sleepers = [one for one in self._sleepers if one[0] > self._elapsed]
        heapq.heapify(self._sleepers)
        for _, _, awake in sorted(due):
            if not awake.done():
                awake.set_result(None)
        await settle()


class SigningCluster(FakeCluster):
    """A cluster that asks for a token of the last hour; Kubernetes writes a new one in time."""

    def __init__(self, folder: Path, clock: FakeClock) -> None:
        super().__init__()
        self._clock, self._file = clock, folder / "token"
        self.signed = 0
        user = {"tokenFile": str(self._file)}
        described = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "clusters": [{"name": "c", "cluster": {"server": "http://127.0.0.1:1"}}],
            "users": [{"name": "u", "user": user}],
        }
        (folder / "kubeconfig").write_text(yaml.safe_dump(described))
        self._access = from_kubeconfig(folder / "kubeconfig", None, clock)
        self.rotate()

    def rotate(self) -> None:
        self._file.write_text(f"given-at-{self._clock.monotonic():.0f}")

    async def ping(self) -> None:
        bearer = (await self._access.headers())["Authorization"]
        if self._clock.monotonic() - int(bearer.rpartition("-")[2]) > HOUR_S:
            raise Unavailable("the API server refuses the agent's own credentials (401)")
        self.signed += 1


@dataclass(frozen=True)
class Size:
    """Resources of an agent: pages of its database, reports and their bytes, its tasks."""

    pages: int
    reports: int
    report_bytes: int
    tasks: int


class Alone:
    """An agent whose control plane is away from its first day on."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.clock = folder, LeapingClock()
        self.cluster = SigningCluster(folder, self.clock)
        self.turn = 0
        self.start()

    def start(self) -> None:
        self.database = Database(self.folder / "agent.db")
        self.outbox = SqliteOutbox(self.database, self.clock)
        bundles, memory = BundleFiles(self.folder / "bundles"), SqliteStateStore(self.database)
        self.fetcher, reports = BundleTransfer(()), OutboxReports(self.outbox)
        key, identities = SealingKey.generate(), AgeIdentities(None)
        ports = ReconcilePorts(
            self.cluster,
            FakeFences(self.cluster),
            bundles,
            self.fetcher,
            memory,
            reports,
            InputVerifier(TrustedKeys(())),
        )
        self.engine = ReconcileEngine(ports, self.clock, key, identities)
        self.engine.start()

    async def stop(self) -> None:
        await self.engine.stop()
        self.database.close()

    async def begin(self) -> None:
        bundle = make_bundle([*(config(name) for name in NAMES), CRON])
        self.fetcher.offer(bundle.digest, bundle.data)
        spec = BundleSpec("s", "prod", bundle.digest, len(bundle.data))
        self.engine.desire(Desired("s", 1, spec))
        await self.clock.advance(5)

    async def pass_time(self, seconds: int) -> None:
        """A quarter of an hour after the other; in each somebody meddles, and a job runs."""
        for _ in range(seconds // STEP_S):
            self.turn += 1
            if self.turn % 3 == 0:
                self.cluster.rotate()
            self._run_nightly()
            self._meddle()
            await self.clock.leap(STEP_S)
            await self.clock.advance(2)
            assert self.wrong() == [], f"after {self.clock.monotonic() / HOUR_S} hours"

    def wrong(self) -> list[str]:
        objects = self.cluster.objects
        found = {name: objects.get(("", "ConfigMap", "prod", name)) for name in NAMES}
        return [name for name, one in found.items() if not one or one["data"] != {"key": "1"}]

    def size(self) -> Size:
        ((pages,),) = self.database.rows("PRAGMA page_count")
        ((reports, total),) = self.database.rows("SELECT count(*), sum(length(body)) FROM report")
        return Size(pages, reports, total, len(asyncio.all_tasks()))

    def drain_reports(self) -> list[pb.Report]:
        """The control plane is back and takes all that lies on the disk."""
        found = []
        while taken := self.outbox.take(256):
            found += [pb.Report.FromString(one.body) for one in taken]
            self.outbox.acknowledge(taken[-1].number)
        return found

    def _meddle(self) -> None:
        key = ("", "ConfigMap", "prod", NAMES[self.turn % len(NAMES)])
        if self.turn % 2:
            self.cluster.put(self.cluster.objects[key] | {"data": {"key": "meddled"}})
        else:
            self.cluster.drop(key)

    def _run_nightly(self) -> None:
        """The pod of the last run goes, another one comes."""
        owner = self.cluster.objects["batch", "CronJob", "prod", "nightly"]
        for kind in ("Pod", "Job"):
            for key in [key for key in self.cluster.objects if key[1] == kind]:
                self.cluster.drop(key)
        job = self.cluster.put(_child("batch/v1", "Job", f"nightly-{self.turn}", owner))
        self.cluster.put(_child("v1", "Pod", f"nightly-{self.turn}-x", job))


def _child(version: str, kind: str, name: str, owner: KubeObject) -> KubeObject:
    reference = {"kind": owner["kind"], "uid": owner["metadata"]["uid"], "controller": True}
    meta = {"name": name, "namespace": "prod", "ownerReferences": [reference]}
    done = {"phase": "Succeeded", "conditions": [{"type": "Complete", "status": "True"}]}
    return {"apiVersion": version, "kind": kind, "metadata": meta, "spec": {}, "status": done}


@pytest.fixture
async def alone(tmp_path: Path) -> AsyncIterator[Alone]:
    asyncio.get_running_loop().set_default_executor(AtOnce())
    made = Alone(tmp_path)
    await made.begin()
    yield made
    await made.stop()


async def test_three_days_alone_are_healed_and_leave_no_heap(alone: Alone) -> None:
    """Hourly tokens, a restart, a change every quarter of an hour; then one short report."""
    await alone.pass_time(DAY_S)
    first = alone.size()
    await alone.pass_time(DAY_S)
    await alone.stop()
    alone.start()
    await alone.pass_time(DAY_S)
    last = alone.size()
    assert alone.cluster.signed > 500
    assert last.pages <= first.pages * 1.2 and last.tasks <= first.tasks + 2
    assert last.reports <= first.reports + 2 and last.report_bytes <= first.report_bytes * 1.2
    reports = alone.drain_reports()
    (status,) = [one.status for one in reports if one.HasField("status")]
    assert (status.phase, status.sequence) == (pb.PHASE_HEALTHY, 1)
    drifts = {one.drift.object.name for one in reports if one.HasField("drift")}
    assert drifts == set(NAMES)
    present = {c.object.name for one in reports for c in one.inventory.present}
    assert {name for name in present if "nightly-" in name} == {
        f"nightly-{alone.turn}",
        f"nightly-{alone.turn}-x",
    }
