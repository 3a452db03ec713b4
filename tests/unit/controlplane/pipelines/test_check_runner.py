"""Checks of gates over the store in memory: whose permissions count, and what is reported."""

import base64
from datetime import timedelta
from typing import Any

import pytest

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import User
from controlplane.access.ports import RoleBindingStore, UserStore
from controlplane.agents.model.jobs import JobRequest
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.jobs import ClusterJobs
from controlplane.agents.ports import ClusterJobStore
from controlplane.authorization import INSTALLATION, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.model.groups import ClusterGroup
from controlplane.clusters.ports import ClusterStore
from controlplane.pipelines.gates.kinds import (
    ExternalRule,
    HttpRule,
    JobRule,
    MetricRule,
    SoakRule,
    VersionRule,
)
from controlplane.pipelines.model.state import GateState, GateStatus
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import CHECK
from controlplane.pipelines.operations.gate_checks import CheckRunner
from controlplane.pipelines.operations.what_if import PipelineReplays
from controlplane.pipelines.ports import PipelineEventStore
from controlplane.platform.jobs import Job
from controlplane.services.ports import ServiceStore
from core.errors import Conflict, Invalid, NotFound, Unavailable
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.spec.jobs import JobPhase
from core.spec.status import Phase
from tests.fakes.actors import ADMIN, NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import make_cluster, make_service
from tests.fakes.outbound import FakeClient
from tests.fakes.promotion import IN_DEV, IN_PROD, PROD, Promotion, promotion

SECRET = "whsec_" + base64.b64encode(b"s" * 32).decode()
URL = "https://shop.example.org/gate"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "migrate"},
    "spec": {"containers": [{"name": "main", "image": "x", "args": ["${release}"]}]},
}


class FakeLiveObjects:
    """The `LiveObjects` port: one answer, and who asked for it."""

    def __init__(self) -> None:
        self.asked: list[tuple[Actor, str, str]] = []
        self.answer: JsonMapping = {
            "status": "success",
            "data": {"resultType": "scalar", "result": [1, "0.5"]},
        }

    async def read(self, actor: Actor, handle: str, path: str) -> JsonMapping:
        self.asked.append((actor, handle, path))
        return self.answer


class Checks:
    """A pipeline whose checks are run."""

    def __init__(self, line: Promotion) -> None:
        self.line, self.memory, self.client = line, line.memory, FakeClient()
        self.live = FakeLiveObjects()
        context = line.memory.context
        self.jobs = ClusterJobs(context, LiveLogs())
        self.client.replies = lambda *_: (200, "all green")
        runner = CheckRunner(context, line.pipelines.engine, self.jobs, self.client, self.live)
        line.workers[CHECK] = runner.run

    async def gate(self) -> GateState:
        """The gate before prod; open after the release has passed."""
        candidate = await self.line.candidate()
        if candidate is None:
            return GateState(GateStatus.OPEN)
        return candidate.gates[(await self.line.view()).spec.edges[0].gates[0].id]

    async def refusal(self) -> str:
        candidate = await self.line.candidate()
        assert candidate is not None and candidate.refusal is not None
        return candidate.refusal.reason


@pytest.fixture
async def checks() -> Checks:
    """`root`, who saves the pipeline, is an admin."""
    checks = Checks(await promotion())
    async with checks.memory.store.write() as tx:
        await tx[UserStore].add(User("root", "root@example.org", "root", START, START))
        binding = Binding("b", "admin", SubjectKind.USER, "root", INSTALLATION, START)
        await tx[RoleBindingStore].add(binding)
    return checks


async def test_a_check_that_passes_promotes_the_release(checks: Checks) -> None:
    await checks.line.save(HttpRule(URL, sealed=SECRET))
    await checks.line.push("1")
    assert checks.client.requests == [("POST", URL)]
    assert (await checks.line.service(IN_PROD)).desired.generation == 1


async def test_a_check_that_fails_refuses_the_release(checks: Checks) -> None:
    checks.client.replies = lambda *_: (500, {})
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    assert await checks.refusal() == "gate 0 failed: got 500"
    assert (await checks.line.service(IN_PROD)).desired.digest is None


async def test_a_server_that_is_away_is_asked_again(checks: Checks) -> None:
    """An error of any other kind decides."""

    def away(*_: object) -> tuple[int, object]:
        raise Unavailable("no answer")

    checks.client.replies = away
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    state = await checks.gate()
    assert state.status is GateStatus.RUNNING and "no answer" in state.reason
    checks.client.replies = lambda *_: (200, {})
    await checks.memory.clock.advance(600)
    await checks.line.settle()
    assert (await checks.gate()).status is GateStatus.OPEN


async def test_a_forbidden_address_fails_the_check(checks: Checks) -> None:
    def refuse(*_: object) -> tuple[int, object]:
        raise Invalid("10.0.0.1 is a private address")

    checks.client.replies = refuse
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    assert await checks.refusal() == "gate 0 failed: 10.0.0.1 is a private address"


async def test_a_check_of_a_removed_stage_ends_without_a_request(checks: Checks) -> None:
    held: list[Job] = []

    async def hold(job: Job) -> None:
        held.append(job)

    run, checks.line.workers[CHECK] = checks.line.workers[CHECK], hold
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    await checks.line.save(stages=[StageDraft("dev", [IN_DEV.id])], edges=[])
    await run(held[0])
    assert checks.client.requests == []


IN_CLUSTER = MetricRule("up", 1, cluster_id=ClusterId("prod"), service="monitoring/prom:9090")


async def test_a_metric_of_a_cluster_is_read_as_the_one_who_saved_the_pipeline(
    checks: Checks,
) -> None:
    await checks.line.save(IN_CLUSTER)
    await checks.line.push("1")
    ((owner, cluster, path),) = checks.live.asked
    assert (owner.email, cluster) == ("root@example.org", "prod")
    assert path.startswith("/api/v1/namespaces/monitoring/services/prom:9090/proxy/")
    assert (await checks.gate()).status is GateStatus.OPEN


@pytest.mark.parametrize("change", [{"disabled_at": START}, None])
async def test_nothing_is_read_for_an_owner_who_is_gone(checks: Checks, change: Any) -> None:
    await checks.line.save(IN_CLUSTER)
    async with checks.memory.store.write() as tx:
        if change is None:
            await tx[RoleBindingStore].remove("b")
            await tx[UserStore].remove("root")
        else:
            await tx[UserStore].change("root", **change)
    await checks.line.push("1")
    assert checks.live.asked == []
    assert "root@example.org was disabled or deleted: another user must" in await checks.refusal()


async def test_what_a_metric_measured_is_kept_with_its_gate(checks: Checks) -> None:
    await checks.line.save(IN_CLUSTER)
    await checks.line.push("1")
    gate = await checks.line.gate()
    (measured,) = await checks.line.pipelines.readable_measurements(VIEWER, gate)
    assert (measured.values, measured.passed, measured.release) == ((0.5,), True, 1)
    assert measured.at == checks.memory.clock.now()
    for actor in (NOBODY, person(BuiltInRole.ADMIN, "eve", Scope("project:other"))):
        with pytest.raises(NotFound):
            await checks.line.pipelines.readable_measurements(actor, gate)


async def test_a_job_runs_once_and_decides_when_it_ends(checks: Checks) -> None:
    """Its outputs and its end are read from its row."""
    await checks.line.save(JobRule("ci", POD))
    await checks.line.push("1")
    (job,) = await checks.memory.rows(ClusterJobStore)
    view, candidate = await checks.line.view(), await checks.line.candidate()
    assert candidate is not None
    assert (job.cluster_id, job.namespace, job.timeout_s) == ("prod", "ci", 3_600)
    assert job.manifest["spec"]["containers"][0]["args"] == [candidate.release]
    assert job.key.startswith(f"{view.row.id}:") and job.project_id == view.row.project_id
    await checks.line.settle()
    assert len(await checks.memory.rows(ClusterJobStore)) == 1
    assert await checks.line.pipelines.engine.pipeline_of_job(job.id) is None, "it has not ended"
    async with checks.memory.store.write() as tx:
        await tx[ClusterJobStore].change(job.id, phase=JobPhase.SUCCEEDED)
    assert await checks.line.pipelines.engine.pipeline_of_job(job.id) == view.row.id
    await checks.line.settle()
    assert (await checks.gate()).status is GateStatus.OPEN


async def test_a_job_that_fails_says_how(checks: Checks) -> None:
    await checks.line.save(JobRule("ci", POD, ClusterId("dev")))
    await checks.line.push("1")
    (job,) = await checks.memory.rows(ClusterJobStore)
    assert job.cluster_id == "dev", "the cluster of the rule, not that of the stage"
    async with checks.memory.store.write() as tx:
        columns = {"phase": JobPhase.FAILED, "exit_code": 3, "message": "no database"}
        await tx[ClusterJobStore].change(job.id, **columns)
    await checks.line.settle()
    assert await checks.refusal() == "gate 0 failed: job failed, exit code 3: no database"


async def test_a_users_job_is_no_job_of_a_gate(checks: Checks) -> None:
    """Nobody decides a gate by running a job with its key."""
    await checks.line.save(JobRule("ci", POD))
    await checks.line.push("1")
    (job,) = await checks.memory.rows(ClusterJobStore)
    with pytest.raises(Invalid, match="reserved for pipelines"):
        await checks.jobs.run(ADMIN, "prod", JobRequest("ci", POD, 60, key=job.key))


async def test_a_version_of_another_service_is_awaited(checks: Checks) -> None:
    db = make_service("db", PROD, version="1.0.0", digest="d", generation=1)
    await checks.memory.given(db.changed(observed_generation=1, phase=Phase.HEALTHY))
    await checks.line.save(VersionRule("db", "^1.2"))
    await checks.line.push("1")
    state = await checks.gate()
    assert state.status is GateStatus.RUNNING
    assert "db has version 1.0.0, expected ^1.2" in state.reason
    async with checks.memory.store.write() as tx:
        service = await tx[ServiceStore].get(db.id)
        assert service is not None
        await tx[ServiceStore].put(service.changed(version="1.3.0"))
    await checks.memory.clock.advance(600)
    await checks.line.settle()
    assert (await checks.gate()).status is GateStatus.OPEN


async def test_a_version_is_not_read_beyond_the_owners_permissions(checks: Checks) -> None:
    db = make_service("db", PROD, version="1.3.0", digest="d", generation=1)
    await checks.memory.given(db.changed(observed_generation=1, phase=Phase.HEALTHY))
    await checks.line.save(VersionRule("db", "^1.2"))
    async with checks.memory.store.write() as tx:
        await tx[RoleBindingStore].remove("b")
    await checks.line.push("1")
    state = await checks.gate()
    assert "1 clusters have no service db" in state.reason


async def test_a_signed_answer_counts_once(checks: Checks) -> None:
    rule = ExternalRule("ci@example.org", sealed=SECRET)
    await checks.line.save(rule)
    await checks.line.push("1")
    gate, candidate = await checks.line.gate(), await checks.line.candidate()
    assert candidate is not None
    decisions = checks.line.decisions
    assert await decisions.gate_secret(gate) == SECRET
    assert await decisions.gate_secret("none") is None
    with pytest.raises(Conflict):
        await decisions.answer_signed(gate, "other", True, "", "call-1")
    await decisions.answer_signed(gate, candidate.release, False, "x" * 2_000, "call-2")
    assert (await checks.memory.audited())[-1] == ("ci@example.org", "answerGate", "shop")
    with pytest.raises(Conflict):
        await decisions.answer_signed(gate, candidate.release, True, "", "call-2")


@pytest.mark.parametrize("rule", [SoakRule(60), ExternalRule("ci@example.org")])
async def test_a_gate_without_a_secret_is_answered_by_no_call(checks: Checks, rule: Any) -> None:
    await checks.line.save(rule)
    assert await checks.line.decisions.gate_secret(await checks.line.gate()) is None


async def test_a_call_decides_at_no_other_kind_of_gate(checks: Checks) -> None:
    await checks.line.save(SoakRule(60))
    with pytest.raises(Conflict, match="not of kind EXTERNAL"):
        gate = await checks.line.gate()
        await checks.line.decisions.answer_signed(gate, "r1", True, "", "call")


async def test_a_frozen_cluster_is_the_reason_of_the_wait(checks: Checks) -> None:
    await checks.memory.given(
        ClusterGroup("g", "eu", START, START, cluster_ids=("prod",), frozen=True, frozen_by="ada")
    )
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    candidate = await checks.line.candidate()
    assert candidate is not None and candidate.reason == "cluster group 'eu' is frozen by ada"
    assert (await checks.line.service(IN_PROD)).desired.digest is None


async def test_a_cluster_that_freezes_during_a_check_gets_no_release(checks: Checks) -> None:
    await checks.line.save(HttpRule(URL))
    checks.client.replies = lambda *_: (503, {})
    await checks.line.push("1")
    await checks.memory.given(
        ClusterGroup("g", "eu", START, START, cluster_ids=("prod",), frozen=True, frozen_by="ada")
    )
    checks.client.replies = lambda *_: (200, {})
    await checks.memory.clock.advance(600)
    await checks.line.settle()
    candidate = await checks.line.candidate()
    assert candidate is not None and candidate.reason == "cluster group 'eu' is frozen by ada"
    assert (await checks.line.service(IN_PROD)).desired.digest is None


async def test_a_silent_cluster_is_named_with_its_last_report(checks: Checks) -> None:
    await checks.line.save(HttpRule(URL))
    await checks.line.push("1")
    seen = checks.memory.clock.now() - timedelta(hours=1)
    async with checks.memory.store.write() as tx:
        await tx[ClusterStore].change("prod", pinged_at=seen)
    await checks.memory.clock.advance(60)
    await checks.line.settle()
    silence = (await checks.line.state("prod")).silence
    assert f"prod (last seen {seen:%F %T} UTC)" in silence.reason


class Week:
    """What happened: a release waited a minute in dev, then entered prod."""

    def __init__(self, checks: Checks) -> None:
        self.checks, self.line, self.clock = checks, checks.line, checks.memory.clock
        self.replays = PipelineReplays(checks.memory.context, checks.line.pipelines)

    async def happen(self) -> None:
        await self.line.save(SoakRule(60))
        self.begin = self.clock.now()
        await self.line.push("1")
        await self.clock.advance(60)
        await self.line.settle()
        await self.line.report(IN_PROD)
        await self.line.settle()

    async def replay(self, rule: Any, actor: Actor = VIEWER, **window: Any) -> Any:
        draft = PipelineDraft("x", [], [EdgeDraft("dev", "prod", [GateDraft("gate 0", rule)])])
        since = window.get("since", self.begin)
        until = window.get("until", self.clock.now() + timedelta(seconds=1))
        id = (await self.line.view()).row.id
        return await self.replays.run(actor, id, draft, since, until)


@pytest.fixture
async def week(checks: Checks) -> Week:
    week = Week(checks)
    await week.happen()
    return week


@pytest.mark.parametrize(("seconds", "would"), [(60, 60), (10, 10), (600, None)])
async def test_a_replay_tells_when_a_release_would_have_entered(
    week: Week, seconds: int, would: int | None
) -> None:
    found = await week.replay(SoakRule(seconds))
    (step,) = found.steps
    assert (step.stage, step.back, step.was) == ("prod", False, week.begin + timedelta(seconds=60))
    assert step.would == (None if would is None else week.begin + timedelta(seconds=would))
    waiting = [(one.stage, one.reason) for one in found.waiting]
    assert waiting == ([] if would else [("prod", "waiting for gate 0")])


async def test_a_replay_changes_nothing_and_needs_sight_of_the_pipeline(week: Week) -> None:
    before = await week.line.view()
    for actor in (NOBODY, person(BuiltInRole.ADMIN, "eve", Scope("project:other"))):
        with pytest.raises(NotFound):
            await week.replay(SoakRule(1), actor)
    await week.replay(SoakRule(1))
    assert await week.line.view() == before


async def test_a_replay_ends_with_its_window(week: Week) -> None:
    early = await week.replay(SoakRule(60), until=week.begin + timedelta(seconds=30))
    assert early.steps == () and [one.stage for one in early.waiting] == ["prod"]
    with pytest.raises(Invalid, match="no events of this pipeline were recorded"):
        await week.replay(SoakRule(60), until=week.begin - timedelta(days=1))


async def test_a_replay_needs_the_edges_of_the_pipeline(week: Week) -> None:
    draft = PipelineDraft("x", [], [EdgeDraft("prod", "dev")])
    id = (await week.line.view()).row.id
    with pytest.raises(Invalid, match="no edge from prod to dev exists"):
        await week.replays.run(VIEWER, id, draft, week.begin, week.clock.now())


async def test_events_are_forgotten_after_the_period_of_replays(week: Week) -> None:
    count = len(await week.checks.memory.rows(PipelineEventStore))
    await week.clock.advance(timedelta(days=89).total_seconds())
    await week.line.pipelines.engine.delete_old_events()
    assert len(await week.checks.memory.rows(PipelineEventStore)) == count > 0
    await week.clock.advance(timedelta(days=2).total_seconds())
    await week.line.pipelines.engine.delete_old_events()
    assert await week.checks.memory.rows(PipelineEventStore) == []


async def test_a_release_follows_the_cluster_of_its_service(checks: Checks) -> None:
    """A deleted cluster leaves nothing to render."""
    await checks.memory.given(make_cluster("spare"))
    await checks.line.save(HttpRule(URL))
    async with checks.memory.store.write() as tx:
        await tx[ServiceStore].put((await checks.line.service(IN_PROD)).changed(cluster_id="spare"))
        await tx[ClusterStore].change("spare", deleted_at=START)
    await checks.line.push("1")
    candidate = await checks.line.candidate()
    assert candidate is not None
    assert "the cluster of service 'shop' was deleted" in candidate.reason
