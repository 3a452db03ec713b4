"""Measures pipelines: engine events per second, a rollout to 1,000 clusters, and idle cost."""

import asyncio
import contextlib
import copy
import random
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

from bench.report import BenchReport
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine.effects import Promote, RenderStage, RunCheck
from controlplane.pipelines.engine.engine import step
from controlplane.pipelines.engine.events import (
    Approved,
    CheckAnswered,
    Event,
    ServicesHealth,
    StageObserved,
    StageRendered,
)
from controlplane.pipelines.gates.kinds import ApprovalRule, HttpRule, SoakRule
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.pipeline import (
    EdgeId,
    Gate,
    GateId,
    Pipeline,
    Stage,
    StageEdge,
    StageId,
    validate,
)
from controlplane.pipelines.model.records import PipelineRecord as PipelineRow
from controlplane.pipelines.model.records import PipelineService
from controlplane.pipelines.model.rollout import (
    Progress,
    Rollout,
    StageMember,
    Strategy,
    plan_waves,
)
from controlplane.pipelines.model.state import Health, PipelineState, RevisionRef, digests_of
from controlplane.pipelines.operations.drafts import GateDraft
from controlplane.pipelines.operations.engine_runner import EngineRunner
from controlplane.pipelines.ports import PipelineServiceStore, PipelineStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import OperationContext
from controlplane.platform.jobs import Job
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.secrets.backends.envelope import EnvelopeSealer
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.ports import RevisionStore
from controlplane.store.repositories import REPOSITORIES
from core.identity import ServiceId
from core.runtime.clock import SystemClock
from tests import migrated
from tests.fakes.rollout import FleetRollout
from tests.servers.postgres import Postgres, find_postgres

START = datetime(2026, 1, 1, tzinfo=UTC)
RUNS = 5
CLUSTERS, FEW = 1_000, 100
WAVE = 50
PIPELINES = 1_000
STAGES = 10
SWEEP_SECONDS = 60.0
GATE_SECONDS = 4.0


def line_of(stages: int, id: str = "p") -> Pipeline:
    """Pipeline with one service per stage, and an approval and a soak between stages."""
    ids = [StageId(f"{id}-stage-{n}") for n in range(stages)]
    gates = (ApprovalRule(), SoakRule(1))
    edges = tuple(
        StageEdge(
            EdgeId(f"{a} {b}"),
            a,
            b,
            tuple(Gate(GateId(f"{a} {b} {n}"), f"gate {n}", r) for n, r in enumerate(gates)),
        )
        for a, b in zip(ids, ids[1:], strict=False)
    )
    rows = tuple(Stage(name, name, (ServiceId(f"service of {name}"),)) for name in ids)
    return validate(Pipeline(id, id, rows, edges))


def story(pipeline: Pipeline, releases: int) -> list[tuple[Event, datetime]]:
    """All events of `releases` releases that pass every stage."""
    state, events, now = PipelineState(), [], START

    def send(event: Event) -> None:
        nonlocal state
        events.append((event, now))
        state, _ = step(pipeline, state, event, now)

    for number in range(releases):
        first = pipeline.first
        revision = RevisionRef(f"commit {number}", f"digest {number}")
        revisions = dict.fromkeys(first.services, revision)
        send(StageObserved(first.id, revisions, Health.HEALTHY, "ann"))
        release = state.stages[first.id].release
        for stage in pipeline.order[1:]:
            if release is None:
                break
            digest = RevisionRef(f"commit {number}", f"{stage.id} {number}")
            rendered = dict.fromkeys(stage.services, digest)
            send(StageRendered(stage.id, release, rendered))
            gate = pipeline.edges_into[stage.id][0].gates[0].id
            send(Approved(gate, "bob", False, digests_of(rendered)))
            now += timedelta(seconds=2)
            healthy = dict.fromkeys(stage.services, Health.HEALTHY)
            send(ServicesHealth(stage.id, release, healthy))
            send(ServicesHealth(stage.id, release, healthy))
    return events


def replayed(pipeline: Pipeline, events: list[tuple[Event, datetime]]) -> float:
    """Events per second."""
    state, begun = PipelineState(), time.process_time()
    for event, at in events:
        state, _ = step(pipeline, state, event, at)
    return len(events) / (time.process_time() - begun)


def copied(pipeline: Pipeline, events: list[tuple[Event, datetime]]) -> float:
    """Deep copies of the final state per second."""
    state = PipelineState()
    for event, at in events:
        state, _ = step(pipeline, state, event, at)
    begun = time.process_time()
    for _ in range(200):
        copy.deepcopy(state)
    return 200 / (time.process_time() - begun)


def waves() -> tuple[Pipeline, PipelineState]:
    """Pipeline from dev to 1,000 clusters in waves of 50, with a release that just started."""
    members = [StageMember(ServiceId(f"s{n:04}"), f"c{n:04}") for n in range(CLUSTERS)]
    rollout = Rollout(Strategy.WAVES, wave_size=WAVE)
    stage = Stage(
        StageId("prod"),
        "prod",
        tuple(member.service for member in members),
        rollout=rollout,
        waves=plan_waves(rollout, members),
    )
    dev = Stage(StageId("dev"), "dev", (ServiceId("dev"),))
    edge = StageEdge(EdgeId("e"), dev.id, stage.id)
    pipeline = validate(Pipeline("p", "fleet", (dev, stage), (edge,)))
    revision = RevisionRef("c1", "d1")
    state, effects = step(
        pipeline,
        PipelineState(),
        StageObserved(dev.id, {dev.services[0]: revision}, Health.HEALTHY, ""),
        START,
    )
    (wanted,) = [effect for effect in effects if isinstance(effect, RenderStage)]
    rendered = StageRendered(stage.id, wanted.release, dict.fromkeys(stage.services, revision))
    return pipeline, step(pipeline, state, rendered, START)[0]


def rolled_out(seed: int) -> float:
    """CPU seconds for all waves, with workers that are killed and restarted at random.

    A kill loses unsaved state: the state is read back, and the event is delivered again.
    """
    dice = random.Random(seed)
    pipeline, state = waves()
    given: list[ServiceId] = []
    seen: set[str] = set()
    prod, begun = StageId("prod"), time.process_time()
    given += state.stages[prod].progress
    while not state.stages[prod].verified:
        held = state.stages[prod]
        assert held.release is not None
        healths = dict.fromkeys(held.progress, Health.HEALTHY)
        event = ServicesHealth(prod, held.release, healths)
        after, effects = step(pipeline, state, event, START)
        if dice.random() < 0.3:
            state = codec.state_from_json(codec.state_to_json(state))
            continue
        state = after
        for effect in effects:
            if isinstance(effect, Promote) and effect.key not in seen:
                seen.add(effect.key)
                given += effect.revisions
    took = time.process_time() - begun
    assert sorted(given) == sorted(state.stages[prod].progress), "skipped or doubled"
    assert set(state.stages[prod].progress.values()) == {Progress.HEALTHY}
    return took


async def whole(clusters: int, seed: int) -> float:
    """Seconds per cluster of a promotion with real store and ledger (PostgreSQL if available).

    Replicas are killed during 30 % of the jobs. Agents report, and renders cost nothing.
    """
    programs = find_postgres()
    with contextlib.ExitStack() as stack:
        if programs is not None:
            url = migrated.new_postgres(stack.enter_context(Postgres(programs)))
        else:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            url = migrated.put_sqlite(Path(folder))
        store = SqlStore(make_engine(url), REPOSITORIES)
        fleet = FleetRollout(store, clusters, WAVE, seed)
        await fleet.prepare()
        begun = time.perf_counter()
        await fleet.run()
        took = time.perf_counter() - begun
        services = await fleet.services()
        everybody = sorted(service.id for service in services)
        for stage in (LedgerStage.PROMOTED, LedgerStage.HEALTHY):
            service_ids = sorted(event.service_id for event in await fleet.ledger(stage))
            assert service_ids == everybody, f"{stage}: skipped or doubled"
        async with store.read() as tx:
            records = [
                revision.service_id for revision in await tx[RevisionStore].select(actor="pipeline")
            ]
        assert sorted(records) == everybody, "the ledger and the records differ"
        assert {service.desired.generation for service in services} == {1}, "given twice"
        assert fleet.died > 0
        await store.close()
    return took / clusters


async def gates_at_once(folder: Path, gates: int) -> float:
    """Seconds until a release passes all gates, each of which takes 4 s."""
    store = SqlStore(make_engine(migrated.put_sqlite(folder)), REPOSITORIES)
    rule = HttpRule("https://b.example.org")
    drafts = [GateDraft(f"gate {number}", rule) for number in range(gates)]
    fleet = FleetRollout(store, 1, 1, None, at_once=64, gates=drafts)

    async def answer(job: Job) -> None:
        effect = codec.from_json(job.payload["effect"], RunCheck)
        await asyncio.sleep(GATE_SECONDS)
        event = CheckAnswered(effect.gate, effect.step, effect.attempt_key, CheckAnswer.PASSED, "")
        await fleet.pipelines.engine.advance(fleet.pipeline, event)

    fleet.check = answer
    await fleet.prepare()
    begun = time.perf_counter()
    await fleet.run()
    took = time.perf_counter() - begun
    await store.close()
    return took


async def idle(folder: Path) -> float:
    """Share of a core for the sweep over 1,000 idle pipelines with 10 stages."""
    store = SqlStore(make_engine(migrated.put_sqlite(folder)), REPOSITORIES)
    deps = OperationContext(store, MemoryBus(), SystemClock(), None, EnvelopeSealer(b"k" * 32))  # ty: ignore
    now = deps.clock.now()
    async with store.write() as tx:
        for number in range(PIPELINES):
            spec = line_of(STAGES, f"p{number}")
            body, state = codec.pipeline_to_json(spec), codec.state_to_json(PipelineState())
            await tx[PipelineStore].add(PipelineRow(spec.id, spec.name, now, now, body, state))
            for stage in spec.stages:
                id = stage.services[0]
                row = PipelineService(f"{spec.id}/{id}"[:80], spec.id, id[:36], False)
                await tx[PipelineServiceStore].add(row)
    engine = EngineRunner(deps)
    await engine.pipelines_changed_since(now)
    begun = time.process_time()
    for _ in range(RUNS):
        await engine.pipelines_changed_since(now - timedelta(seconds=SWEEP_SECONDS))
    took = (time.process_time() - begun) / RUNS
    await store.close()
    return took / SWEEP_SECONDS


def main() -> None:
    report = BenchReport("pipelines")
    pipeline = line_of(4)
    events = story(pipeline, 100)
    rates = [replayed(pipeline, events) for _ in range(RUNS)]
    report.add("engine, four stages", rates, "events/s", goal=5_000, at_most=False)
    baseline = [copied(pipeline, events) for _ in range(RUNS)]
    report.add(
        "an event, relative to a deep copy of the state",
        rates,
        "1/s",
        baseline="deepcopy",
        baseline_values=baseline,
        goal=1,
        at_most=False,
    )
    steps = -(-CLUSTERS // WAVE)
    took = [rolled_out(seed) * 1_000 / steps for seed in range(RUNS)]
    report.add("a wave of 50 of 1,000 clusters, workers killed", took, "ms", goal=250)
    few, cost = (asyncio.run(whole(size, seed=1)) * 1_000 for size in (FEW, CLUSTERS))
    report.add(
        "a cluster of 1,000, with store, ledger and deaths",
        [cost],
        "ms",
        baseline="a cluster of 100",
        baseline_values=[few],
        goal=3,
    )
    with tempfile.TemporaryDirectory() as folder:
        many = [asyncio.run(gates_at_once(Path(folder) / f"many{n}", 10)) for n in range(3)]
        report.add(
            "ten gates that each take four seconds",
            many,
            "s",
            baseline="the longest gate",
            baseline_values=[GATE_SECONDS],
            goal=1.2,
        )
        share = asyncio.run(idle(Path(folder) / "idle"))
    report.add(
        "idle, 1,000 pipelines of 10 stages, sweep of a minute",
        [share * 100],
        "% of a core",
        goal=1,
    )
    report.write()


if __name__ == "__main__":
    main()
