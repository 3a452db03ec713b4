"""Effects of each kind of report: rows, ledger entries, and who hears of them."""

from dataclasses import replace
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.access.model.users import Token
from controlplane.access.ports import TokenStore
from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.operations.agent_renders import render_result_to_json
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.report_handlers import AUTONOMOUS_ACTOR
from controlplane.agents.operations.reports import AgentReports
from controlplane.agents.ports import ClusterJobStore
from controlplane.clusters.model.commands import (
    UPLOADED_DIGEST,
    Command,
    CommandKind,
    CommandState,
)
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.context import (
    CLUSTER,
    CLUSTER_JOB,
    DESIRED_STATE,
    RENDER_SERVICES,
    REVOKED,
    SERVICE,
)
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import STATE_OF_HEALTH, Service
from controlplane.services.model.verification import Quarantine
from controlplane.services.ports import ComponentStore, PlanStore, ServiceStore
from core.identity import TokenKind, local_id
from core.spec.health import HealthState
from core.spec.jobs import JobPhase, JobStatus
from core.spec.objects import FieldChange, ObjectRef
from core.spec.plan import PlannedAction, PlannedChange
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report, ReportBody
from core.spec.source import RenderedBundle
from core.spec.status import Phase, Problem, StageTimes, SyncStatus
from core.spec.sync import Removal
from core.spec.verification import VerificationResult
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

EU = make_cluster("eu", project_id="shop")
WEB = make_service("web", EU, generation=3, digest="sha256:a", commit_sha="a" * 40)
LEAVING = make_service("leaving", EU, generation=2, deleted_at=START, removal=Removal.CASCADE)
POD = ObjectRef("", "v1", "Pod", "shop", "web")
AT = START + timedelta(minutes=1)
LOCAL = local_id("cluster", "shop")
MIRROR = LocalServiceReport(
    LOCAL, "shop", "shop", digest="sha256:l", sequence=1, repository="https://git.example.org/a",
    ref="main", commit="c" * 40,
)  # fmt: skip


class Agent:
    """An agent that reports, and the rows that its reports leave."""

    def __init__(self, world: MemoryOperations) -> None:
        self.world = world
        self.agents = AgentOperations(world.context)
        self._number = 0

    async def reports(self, *bodies: ReportBody) -> set[tuple[str, str]]:
        """Sends reports together; returns the publications."""
        self.world.bus.published.clear()
        first, self._number = self._number + 1, self._number + len(bodies)
        reports = [Report(number, AT, body) for number, body in enumerate(bodies, first)]
        await self.agents.record_reports(EU.id, reports)
        return set(self.world.published)

    async def service(self, id: str = WEB.id) -> Service:
        row = await self.world.row(ServiceStore, id)
        assert row is not None
        return row

    async def entry(self) -> LedgerEntry:
        """The newest entry of the ledger."""
        return (await self.world.ledger())[-1]


@pytest.fixture
async def agent() -> Agent:
    world = operations_over_memory()
    await world.given(EU, WEB, LEAVING)
    return Agent(world)


async def test_a_status_shows_all_that_the_agent_says(agent: Agent) -> None:
    problems = tuple(Problem(f"problem {number}", ref=POD) for number in range(4))
    status = SyncStatus(
        WEB.id, 3, "sha256:a", Phase.FAILED, problems, message="retrying", awaiting=(POD,),
        drifted=2, written=5, pruned=1,
        stamps=StageTimes(START, AT, None, None),
    )  # fmt: skip
    assert await agent.reports(status) == {(SERVICE, WEB.id)}
    observed = (await agent.service()).observed
    assert (observed.problems, observed.message, observed.awaiting) == (
        problems,
        "retrying",
        (POD,),
    )
    assert (observed.drifted, observed.observed_at) == (2, AT)
    entry = await agent.entry()
    assert entry.message == "; ".join(f"{POD}: problem {number}" for number in range(3))
    assert entry.detail == {
        "received_at": START.isoformat(),
        "fetched_at": AT.isoformat(),
        "written": 5,
        "pruned": 1,
    }


async def test_stages_without_a_result_are_not_in_the_ledger(agent: Agent) -> None:
    for phase in Phase:
        await agent.reports(SyncStatus(WEB.id, 3, "sha256:a", phase))
    stages = [entry.stage for entry in await agent.world.ledger()]
    assert stages == [LedgerStage(phase.value) for phase in list(Phase)[2:]]


async def test_a_deleted_service_goes_when_its_objects_are_gone(agent: Agent) -> None:
    """Not before, and only if it was deleted: an agent removes no service by its report."""
    component = ObservedComponent(POD, "u", "", None)
    await agent.reports(InventoryChange(WEB.id, True, (component,)))
    await agent.reports(SyncStatus(WEB.id, 3, "", Phase.REMOVED))
    await agent.reports(SyncStatus(LEAVING.id, 2, "", Phase.APPLYING))
    await agent.reports(SyncStatus(LEAVING.id, 1, "", Phase.REMOVED))
    stored = {row.id for row in await agent.world.rows(ServiceStore)}
    assert WEB.id in stored and len(await agent.world.rows(ComponentStore)) == 1
    before = len(await agent.world.ledger())
    heard = await agent.reports(
        SyncStatus(LEAVING.id, 2, "", Phase.REMOVED),
        SyncStatus(LEAVING.id, 2, "", Phase.HEALTHY),
    )
    assert heard == {(SERVICE, LEAVING.id), (CLUSTER, "eu")}
    async with agent.world.store.read() as tx:
        assert await tx[ServiceStore].get(LEAVING.id, deleted=True) is None
    added = (await agent.world.ledger())[before:]
    assert [entry.stage for entry in added] == [LedgerStage.REMOVED]
    assert await agent.world.row(ClusterStore, "eu") is not None


async def test_the_last_service_of_an_ending_cluster_takes_it_along(agent: Agent) -> None:
    """Its deploy token ends with it, in every cache."""
    token = Token("t", TokenKind.AGENT, "t", "hash", START, cluster_id=EU.id)
    async with agent.world.store.write() as tx:
        await tx[TokenStore].add(token)
        await tx[ClusterStore].change("eu", ending_at=START)
        await tx[ServiceStore].mark_deleted(WEB.id, Removal.CASCADE, 4, START)
    await agent.reports(SyncStatus(LEAVING.id, 2, "", Phase.REMOVED))
    assert await agent.world.row(ClusterStore, "eu") is not None
    heard = await agent.reports(SyncStatus(WEB.id, 4, "", Phase.REMOVED))
    assert (REVOKED, "t") in heard and (CLUSTER, "eu") in heard
    assert await agent.world.row(ClusterStore, "eu") is None


async def test_a_dry_run_keeps_its_newest_plan(agent: Agent) -> None:
    """Only a service in a dry run has one."""
    changes = tuple(PlannedChange(POD, action) for action in list(PlannedAction)[:2])
    status = SyncStatus(WEB.id, 3, "sha256:a", Phase.APPLIED, planned=changes[:1])
    await agent.reports(status)
    assert await agent.world.rows(PlanStore) == []
    async with agent.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, dry_run=True)
    await agent.reports(replace(status, planned=None))
    assert await agent.world.rows(PlanStore) == []
    for planned in (changes[:1], changes, ()):
        await agent.reports(replace(status, planned=planned))
        (plan,) = await agent.world.rows(PlanStore)
        assert (plan.id, plan.changes) == (WEB.id, planned)


async def test_a_healthy_service_wakes_those_that_wait_in_its_cluster(agent: Agent) -> None:
    waiting = make_service("api", EU, generation=1, waiting=True, dependencies=("web",))
    await agent.world.given(make_repository("fleet"))
    async with agent.world.store.write() as tx:
        await tx[ServiceStore].add(
            replace(waiting, repository_id=make_repository("fleet").id)
        )  # fmt: skip
    wake = (RENDER_SERVICES, f"fleet/{waiting.id}")
    assert wake not in await agent.reports(SyncStatus(WEB.id, 3, "sha256:a", Phase.APPLIED))
    assert wake in await agent.reports(SyncStatus(WEB.id, 3, "sha256:a", Phase.HEALTHY))


@pytest.mark.parametrize(
    ("deleted", "healed", "message"),
    [
        (False, False, "Pod shop/web was changed"),
        (False, True, "Pod shop/web was changed and put back"),
        (True, True, "Pod shop/web was deleted and put back"),
    ],
)
async def test_drift_names_the_field_its_values_and_its_manager(
    agent: Agent, deleted: bool, healed: bool, message: str
) -> None:
    change = FieldChange("/spec/replicas", "3", "1")
    drift = DriftFound(
        WEB.id,
        POD,
        "kubectl",
        ("spec.replicas",),
        deleted=deleted,
        healed=healed,
        changes=(change,),
    )
    assert await agent.reports(drift) == {(SERVICE, WEB.id)}
    entry = await agent.entry()
    assert (entry.stage, entry.actor, entry.message) == (LedgerStage.DRIFTED, "kubectl", message)
    assert (entry.digest, entry.sha, entry.sequence) == ("sha256:a", None, 0)
    assert entry.detail == {
        "paths": ["spec.replicas"],
        "healed": healed,
        "changes": [{"pointer": "/spec/replicas", "old": "3", "new": "1"}],
    }
    entries = len(await agent.world.ledger())
    await agent.reports(replace(drift, service_id=LEAVING.id))
    assert len(await agent.world.ledger()) == entries


@pytest.mark.parametrize(
    ("digest", "lifted"), [("sha256:a", True), ("sha256:other", False), (None, False)]
)
async def test_a_passed_verification_ends_only_the_quarantine_of_its_bundle(
    agent: Agent, digest: str | None, lifted: bool
) -> None:
    async with agent.world.store.write() as tx:
        quarantine = Quarantine(digest, "restarts", START) if digest else None
        await tx[ServiceStore].change(WEB.id, quarantined=digest, quarantine=quarantine)
    await agent.reports(VerificationResult(WEB.id, 3, "sha256:a", True))
    desired = (await agent.service()).desired
    kept = None if lifted else digest
    assert (desired.quarantined, desired.quarantine and desired.quarantine.digest) == (kept, kept)
    entry = await agent.entry()
    assert (entry.stage, entry.sequence, entry.digest) == (LedgerStage.VERIFIED, 3, "sha256:a")


async def test_the_entry_of_a_verification_has_the_commit_only_of_the_present_bundle(
    agent: Agent,
) -> None:
    for digest, sha in (("sha256:a", WEB.desired.commit_sha), ("sha256:former", None)):
        heard = await agent.reports(VerificationResult(WEB.id, 2, digest, False, "x" * 3000, "b"))
        entry = await agent.entry()
        assert (entry.stage, entry.sha, entry.digest) == (LedgerStage.HELD, sha, digest)
        assert (len(entry.message), entry.detail) == (2000, {"instead": "b"})
        assert (DESIRED_STATE, f"eu/{WEB.id}") in heard
    count = len(await agent.world.ledger())
    await agent.reports(VerificationResult("unknown", 2, "sha256:a", False))
    assert len(await agent.world.ledger()) == count


ORDER = Command(
    "r", EU.id, CommandKind.RENDER, START, payload={"box": "AA==", UPLOADED_DIGEST: "sha256:up"}
)
RESULT = RenderedBundle("sha256:in", "sha256:up", 10, 1, cached=False)


@pytest.mark.parametrize(
    ("result", "is_kept"),
    [(RESULT, True), (replace(RESULT, digest="sha256:other"), False), (None, False)],
)
async def test_a_render_has_the_result_that_its_agent_uploaded(
    agent: Agent, result: RenderedBundle | None, is_kept: bool
) -> None:
    """Its order, which contains credentials, is gone. No render is in the audit log."""
    await agent.world.given(ORDER)
    answer = CommandAnswer("r", CommandOutcome.SUCCEEDED, "done", result)
    assert await agent.reports(answer) == {(CLUSTER_JOB, "r")}
    (row,) = await agent.world.rows(CommandStore)
    expected = render_result_to_json(RESULT) if is_kept else {}
    assert row.payload.keys() == expected.keys() and "box" not in row.payload
    assert (row.state, row.message, row.finished_at) == (CommandState.SUCCEEDED, "done", AT)
    assert await agent.world.audited() == []


@pytest.mark.parametrize(
    ("outcome", "verdict"),
    [
        (CommandOutcome.SUCCEEDED, AuditVerdict.ALLOWED),
        (CommandOutcome.FAILED, AuditVerdict.ALLOWED),
        (CommandOutcome.REFUSED, AuditVerdict.REFUSED),
    ],
)
async def test_the_answer_to_a_command_is_in_the_audit_log(
    agent: Agent, outcome: CommandOutcome, verdict: AuditVerdict
) -> None:
    """With its service as the target, if it has one."""
    sync = Command("c", EU.id, CommandKind.SYNC_NOW, START, WEB.id, payload={"service": WEB.id})
    upgrade = Command("u", EU.id, CommandKind.UPGRADE, START)
    await agent.world.given(sync, upgrade)
    await agent.reports(CommandAnswer("c", outcome, "m" * 2000), CommandAnswer("u", outcome))
    async with agent.world.store.read() as tx:
        rows = await audit_rows(tx)
    assert [(row.action, row.target, row.target_id, row.verdict) for row in rows] == [
        ("agent.sync-now", WEB.id, WEB.id, verdict),
        ("agent.upgrade", "u", "u", verdict),
    ]
    assert (rows[0].actor, rows[0].cluster_id, rows[0].project_id) == ("agent of eu", "eu", "shop")
    assert rows[0].detail == {"result": outcome.value, "message": "m" * 1000, "command": "c"}


async def test_a_report_that_is_sent_again_has_no_second_effect(agent: Agent) -> None:
    """Also the last one, and one that arrives twice in a call."""
    drift = DriftFound(WEB.id, POD, "kubectl", (), deleted=True, healed=False)
    reports = [Report(number, AT, drift) for number in (1, 2)]
    await agent.agents.record_reports(EU.id, reports)
    for again in (reports, reports[1:], [*reports[1:], *reports[1:]]):
        assert await agent.agents.record_reports(EU.id, again) == 2
    assert len(await agent.world.ledger()) == 2


def component(name: str, **fields: Any) -> ObservedComponent:
    return replace(ObservedComponent(replace(POD, name=name), "u", "", None), **fields)


async def test_a_complete_inventory_ends_objects_that_it_does_not_name(agent: Agent) -> None:
    """Only those of its service, and those that an earlier report of the batch has named."""
    a, b, c = (component(name) for name in "abc")

    async def stored() -> set[str]:
        return {row.name for row in await agent.world.rows(ComponentStore)}

    other = InventoryChange(LEAVING.id, True, (component("z"),))
    await agent.reports(other, InventoryChange(WEB.id, True, (a, b)))
    assert await stored() == {"a", "b"}, "a deleted service has no inventory"
    await agent.reports(InventoryChange(WEB.id, False, (c,)))
    assert await stored() == {"a", "b", "c"}
    heard = await agent.reports(
        InventoryChange(WEB.id, True, (b,)),
        InventoryChange(WEB.id, False, (a,), (b.ref,)),
        InventoryChange(WEB.id, True, (replace(c, uid="new"), a)),
    )
    assert await stored() == {"a", "c"} and heard == {(SERVICE, WEB.id)}
    await agent.reports(InventoryChange(WEB.id, False, (b,)), InventoryChange(WEB.id, True, (a,)))
    assert await stored() == {"a"}


@pytest.mark.parametrize("health", [None, *HealthState])
async def test_the_health_of_an_object_is_stored_by_the_name_of_the_api(
    agent: Agent, health: HealthState | None
) -> None:
    observed = component("a", health=health, message="ok", images=("nginx",), labels={"x": "y"})
    await agent.reports(InventoryChange(WEB.id, True, (observed,)))
    (row,) = await agent.world.rows(ComponentStore)
    assert row.state is (STATE_OF_HEALTH.get(health) if health else None)
    assert (row.message, row.images, row.labels, row.updated_at) == (
        "ok",
        ("nginx",),
        {"x": "y"},
        AT,
    )


weights = st.lists(st.integers(0, 600), max_size=30)


@given(weights)
def test_a_long_list_of_reports_is_split_in_its_order(sizes: list[int]) -> None:
    """No part delays other clusters for long, except one report that is too large by itself."""
    offered = (LedgerEntry.of(WEB, LedgerStage.OFFERED, START),)
    reports = [
        Report(number, AT, InventoryChange(WEB.id, False, (), (POD,) * size))
        for number, size in enumerate(sizes)
    ]
    parts = list(AgentReports(EU.id, reports, offered).split())
    assert [report for part in parts for report in part.reports] == reports
    assert [part.offered for part in parts] == [offered, *[()] * (len(parts) - 1)]
    for part in parts:
        assert part.weight == 1 + sum(1 + len(report.body.gone) // 10 for report in part.reports)
        assert part.weight <= 51 or len(part.reports) == 1
    for earlier, later in pairwise(parts):
        first = AgentReports(EU.id, later.reports[:1])
        assert earlier.weight + first.weight > 52, "a part takes as many reports as it may"


@pytest.mark.parametrize("outcome", list(CommandOutcome))
@pytest.mark.parametrize("phase", [JobPhase.PENDING, JobPhase.CANCELLED])
async def test_a_job_whose_command_the_agent_did_not_execute_fails(
    agent: Agent, outcome: CommandOutcome, phase: JobPhase
) -> None:
    """The status of a job that it executes comes with its own reports."""
    job = ClusterJob("j", EU.id, "k", "shop", {}, 60, False, "ada", START, phase=phase)
    await agent.world.given(Command("j", EU.id, CommandKind.RUN_JOB, START))
    async with agent.world.store.write() as tx:
        await tx[ClusterJobStore].add(job)
    await agent.reports(CommandAnswer("j", outcome, "not in the allow-list"))
    (row,) = await agent.world.rows(ClusterJobStore)
    fails = outcome is not CommandOutcome.SUCCEEDED and phase is JobPhase.PENDING
    ended = (JobPhase.FAILED, "not in the allow-list", AT)
    assert (row.phase, row.message, row.finished_at) == (ended if fails else (phase, "", None))


async def test_the_times_of_a_job_are_those_of_its_agent(agent: Agent) -> None:
    """A final status without an end ends with its report."""
    job = ClusterJob("j", EU.id, "k", "shop", {}, 60, False, "ada", START)
    async with agent.world.store.write() as tx:
        await tx[ClusterJobStore].add(job)
    status = JobStatus("j", JobPhase.RUNNING, POD, "running", started_at=START, finished_at=START)
    assert await agent.reports(status) == {(CLUSTER_JOB, "j")}
    (row,) = await agent.world.rows(ClusterJobStore)
    assert (row.object, row.message, row.started_at, row.finished_at) == (
        POD,
        "running",
        START,
        None,
    )
    ended = replace(status, phase=JobPhase.SUCCEEDED, finished_at=None, outputs={"main": "ok"})
    await agent.reports(ended)
    (row,) = await agent.world.rows(ClusterJobStore)
    assert (row.phase, row.finished_at, row.outputs) == (JobPhase.SUCCEEDED, AT, {"main": "ok"})


async def test_a_service_of_the_cluster_itself_is_shown_as_it_is_there(agent: Agent) -> None:
    """It belongs to the project of its cluster."""
    broken = replace(MIRROR, error="no such folder", reason="NOT_FOUND" * 20, committed_at=START)
    heard = await agent.reports(broken)
    (row,) = [row for row in await agent.world.rows(ServiceStore) if row.mirrored]
    assert heard == {(SERVICE, row.id), (CLUSTER, "eu")}
    assert (row.project_id, row.origin, row.spec.ref, row.reported_id) == (
        "shop",
        "https://git.example.org/a",
        "main",
        LOCAL,
    )
    desired = row.desired
    assert (desired.commit_sha, desired.digest, desired.generation) == ("c" * 40, "sha256:l", 1)
    assert (desired.render_error, len(desired.render_reason)) == ("no such folder", 64)
    entry = await agent.entry()
    assert (entry.stage, entry.actor, entry.message, entry.sha, entry.digest) == (
        LedgerStage.RENDERED,
        AUTONOMOUS_ACTOR,
        "https://git.example.org/a main",
        "c" * 40,
        "sha256:l",
    )
    assert entry.detail == {"committed_at": START.isoformat()}
    await agent.reports(MIRROR)
    (row,) = [row for row in await agent.world.rows(ServiceStore) if row.mirrored]
    assert row.desired.render_error is None
    assert len(await agent.world.ledger()) == 1, "the same deployment is one entry"


@pytest.mark.parametrize("unfinished", [{"digest": ""}, {"sequence": 0}])
async def test_a_service_of_the_cluster_without_a_bundle_is_no_deployment(
    agent: Agent, unfinished: dict[str, object]
) -> None:
    await agent.reports(replace(MIRROR, commit="", **unfinished))
    (row,) = [row for row in await agent.world.rows(ServiceStore) if row.mirrored]
    assert row.desired.commit_sha is None
    assert await agent.world.ledger() == []
    assert await agent.reports(replace(MIRROR, service_id="not-local")) == set()


@pytest.mark.parametrize("place", [{"namespace": "No Label"}, {"name": "../x"}, {"namespace": ""}])
async def test_a_service_of_the_cluster_without_a_valid_place_is_not_shown(
    agent: Agent, place: dict[str, str]
) -> None:
    """An agent of another version, or an evil one, puts no odd text into lists and paths."""
    await agent.reports(replace(MIRROR, **place))
    assert [row for row in await agent.world.rows(ServiceStore) if row.mirrored] == []
    assert await agent.world.ledger() == []


async def test_an_end_that_the_agent_knows_is_the_end_of_a_job(agent: Agent) -> None:
    """A cancelled job has no exit code, whatever its containers ended with."""
    for id, phase, code in (("a", JobPhase.FAILED, 3), ("b", JobPhase.CANCELLED, None)):
        job = ClusterJob(id, EU.id, id, "shop", {}, 60, False, "ada", START)
        async with agent.world.store.write() as tx:
            await tx[ClusterJobStore].add(job)
        await agent.reports(JobStatus(id, phase, exit_code=3, finished_at=START))
        (row,) = await agent.world.rows(ClusterJobStore, id=id)
        assert (row.finished_at, row.exit_code) == (START, code)
