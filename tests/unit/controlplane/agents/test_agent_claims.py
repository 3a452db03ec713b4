"""Claims of agents: what a report may change, and what the agent of another cluster may not."""

import asyncio
from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.operations.report_batch import ReportLimits
from controlplane.agents.ports import ClusterJobStore
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Revision, Service
from controlplane.services.ports import (
    ComponentStore,
    DeniedRevisionStore,
    RevisionStore,
    ServiceStore,
)
from core.errors import NotFound
from core.identity import ClusterId, local_id
from core.spec.jobs import JobPhase, JobStatus
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.local_services import LocalServiceReport
from core.spec.reports.report import Report, ReportBody
from core.spec.status import Phase, SyncStatus
from core.spec.verification import Verification, VerificationResult
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

VICTIM, EVIL = make_cluster("victim"), make_cluster("evil")
SHOP: Service = make_service(
    "shop", VICTIM, generation=2, digest="sha256:b", verification=Verification(60)
)
OWN = make_service("own", EVIL, generation=1, digest="sha256:e")
SYNC = Command("c", VICTIM.id, CommandKind.SYNC_NOW, START, SHOP.id, payload={"service": SHOP.id})
JOB = ClusterJob("j", VICTIM.id, "k", "shop", {}, 60, False, "ada", START)
CANCELLED = replace(JOB, phase=JobPhase.CANCELLED)
POD = ObjectRef("", "v1", "Pod", "shop", "web")
LOCAL = local_id("cluster", "shop")
FORMER = Revision(
    "r", SHOP.id, "1" * 40, "main", "", "sha256:a", "", "ada", "Start", START, START, "ada"
)


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(VICTIM, EVIL, SHOP, OWN, SYNC, JOB)
    return world


@pytest.fixture
def agents(world: MemoryOperations) -> AgentOperations:
    return AgentOperations(world.context)


def component(ref: ObjectRef = POD, uid: str = "u") -> ObservedComponent:
    return ObservedComponent(ref, uid, "", None)


CLAIMS: dict[str, ReportBody] = {
    "status": SyncStatus(SHOP.id, 9, "sha256:b", Phase.FAILED),
    "removal": SyncStatus(SHOP.id, 9, "", Phase.REMOVED),
    "inventory": InventoryChange(SHOP.id, True),
    "object": InventoryChange(SHOP.id, False, (component(uid="evil"),)),
    "end of an object": InventoryChange(SHOP.id, False, (), (POD,)),
    "answer": CommandAnswer("c", CommandOutcome.FAILED, "evil"),
    "drift": DriftFound(SHOP.id, POD, "evil", (), deleted=True, healed=False),
    "job": JobStatus("j", JobPhase.FAILED, message="evil"),
    "denial": VerificationResult(SHOP.id, 2, "sha256:b", False, "evil", "sha256:a"),
    "mirror": LocalServiceReport(SHOP.id, "evil", "evil", digest="sha256:e", sequence=9),
    "end of a mirror": LocalServiceReport(SHOP.id, "shop", "shop", removed=True),
}


async def state(world: MemoryOperations) -> list[object]:
    """The rows that belong to the victim, and the ledger."""
    return [
        await world.rows(ServiceStore, cluster_id=VICTIM.id),
        await world.rows(ComponentStore, cluster_id=VICTIM.id),
        await world.rows(CommandStore),
        await world.rows(ClusterJobStore),
        await world.rows(DeniedRevisionStore),
        await world.ledger(),
    ]


@pytest.mark.parametrize("together", [False, True], ids=["alone", "together"])
@pytest.mark.parametrize("claim", sorted(CLAIMS))
async def test_an_agent_changes_nothing_of_another_cluster(
    world: MemoryOperations, agents: AgentOperations, claim: str, together: bool
) -> None:
    """Not even in a transaction that it shares with the agent of that cluster."""
    status = SyncStatus(SHOP.id, 2, "sha256:b", Phase.HEALTHY)
    inventory = InventoryChange(SHOP.id, True, (component(),))
    honest = [Report(1, START, status), Report(2, START, inventory)]
    await agents.record_reports(VICTIM.id, honest)
    before = await state(world)
    world.bus.published.clear()
    again = [Report(3, START, inventory)] if together else []
    await asyncio.gather(
        agents.record_reports(EVIL.id, [Report(1, START, CLAIMS[claim])]),
        *(agents.record_reports(VICTIM.id, again) for _ in again),
    )
    assert await state(world) == before
    if not together:
        assert {key for _, key in world.published} <= {EVIL.id}


async def test_the_same_claims_of_its_own_agent_count(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Otherwise the test above would prove nothing."""
    changed = set()
    for number, (name, body) in enumerate(sorted(CLAIMS.items()), 1):
        before = await state(world)
        await agents.record_reports(VICTIM.id, [Report(number, START, body)])
        if await state(world) != before:
            changed.add(name)
    assert changed == CLAIMS.keys() - {"end of a mirror", "mirror", "end of an object", "inventory"}


async def test_a_report_counts_once_and_in_its_order(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """An agent sends again what it has no acknowledgement for."""
    phases = (Phase.APPLIED, Phase.HEALTHY, Phase.DEGRADED)
    reports = [
        Report(number, START, SyncStatus(SHOP.id, 2, "sha256:b", phase))
        for number, phase in enumerate(phases, 1)
    ]
    assert await agents.record_reports(VICTIM.id, reports[:2]) == 2
    assert await agents.record_reports(VICTIM.id, reports) == 3
    assert await agents.record_reports(VICTIM.id, reports[:1]) == 3
    assert [entry.stage for entry in await world.ledger()] == [
        LedgerStage.APPLIED,
        LedgerStage.HEALTHY,
        LedgerStage.DEGRADED,
    ]
    older = SyncStatus(SHOP.id, 1, "sha256:a", Phase.HEALTHY)
    await agents.record_reports(VICTIM.id, [Report(4, START, older), Report(5, START, None)])
    row = await world.row(ServiceStore, SHOP.id)
    assert row is not None and row.observed.phase is Phase.DEGRADED
    cluster = await world.row(ClusterStore, VICTIM.id)
    assert cluster is not None and cluster.acknowledged == 5
    with pytest.raises(NotFound, match="this cluster was deleted"):
        await agents.record_reports(ClusterId("gone"), reports)


async def test_a_command_is_answered_once(world: MemoryOperations, agents: AgentOperations) -> None:
    for number, outcome in enumerate((CommandOutcome.REFUSED, CommandOutcome.SUCCEEDED), 1):
        answer = CommandAnswer("c", outcome, f"answer {number}")
        await agents.record_reports(VICTIM.id, [Report(number, START, answer)])
    (row,) = await world.rows(CommandStore)
    assert (row.state, row.message) == (CommandState.REFUSED, "answer 1")
    (detail,) = await world.audit_details()
    assert detail[1] == {"result": "refused", "message": "answer 1", "command": "c"}


async def test_a_job_that_ended_stays_as_it_ended(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """A failed job without an exit code was killed, and running containers have none yet."""
    codes: list[int | None] = []
    statuses = (
        JobStatus("j", JobPhase.RUNNING, POD, exit_code=0),
        JobStatus("j", JobPhase.FAILED, POD, exit_code=0, log_tail="killed"),
        JobStatus("j", JobPhase.SUCCEEDED, POD, exit_code=0, log_tail="evil"),
    )
    for number, status in enumerate(statuses, 1):
        await agents.record_reports(VICTIM.id, [Report(number, START, status)])
        (row,) = await world.rows(ClusterJobStore)
        codes.append(row.exit_code)
    assert codes == [None, None, None]
    assert (row.phase, row.log_tail, row.finished_at) == (JobPhase.FAILED, "killed", START)


@pytest.mark.parametrize(
    ("job", "status", "code"),
    [
        (JOB, JobStatus("j", JobPhase.SUCCEEDED, exit_code=0), 0),
        (JOB, JobStatus("j", JobPhase.FAILED, exit_code=3), 3),
        (
            replace(JOB, phase=JobPhase.CANCELLED),
            JobStatus("j", JobPhase.FAILED, exit_code=3),
            None,
        ),
    ],
)
async def test_the_exit_code_of_a_job(
    agents: AgentOperations,
    world: MemoryOperations,
    job: ClusterJob,
    status: JobStatus,
    code: int | None,
) -> None:
    async with world.store.write() as tx:
        await tx[ClusterJobStore].put(job)
    await agents.record_reports(VICTIM.id, [Report(1, START, status)])
    (row,) = await world.rows(ClusterJobStore)
    assert row.exit_code == code


@pytest.mark.parametrize(
    ("digest", "verification", "denied"),
    [
        ("sha256:b", Verification(60), True),
        ("sha256:a", Verification(60), True),
        ("sha256:of-another", Verification(60), False),
        ("sha256:b", None, False),
    ],
)
async def test_an_agent_denies_only_bundles_that_its_service_had_to_verify(
    world: MemoryOperations,
    agents: AgentOperations,
    digest: str,
    verification: Verification | None,
    denied: bool,
) -> None:
    """For the project of its service; the present one is rolled back as the agent did."""
    async with world.store.write() as tx:
        await tx[ServiceStore].change(SHOP.id, verification=verification, commit_sha="2" * 40)
        await tx[RevisionStore].add(FORMER)
    result = VerificationResult(SHOP.id, 2, digest, False, "too many restarts", "sha256:a")
    await agents.record_reports(VICTIM.id, [Report(1, START, result)])
    denials = await world.rows(DeniedRevisionStore)
    expected = [(digest, SHOP.project_id, "agent of victim")] if denied else []
    assert [(row.revision, row.project_id, row.actor) for row in denials] == expected
    row = await world.row(ServiceStore, SHOP.id)
    assert row is not None
    is_present = denied and digest == "sha256:b"
    assert (row.desired.digest, row.desired.generation) == (
        ("sha256:a", 3) if is_present else ("sha256:b", 2)
    )
    stages = [entry.stage for entry in await world.ledger()]
    assert stages == [LedgerStage.HELD] + [LedgerStage.ROLLED_BACK] * is_present


async def test_a_mirrored_service_has_an_id_and_a_name_of_its_own(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Two clusters may define a service of the same name, and of the same id."""
    local = LocalServiceReport(LOCAL, "shop", "shop", digest="sha256:l", sequence=1)
    for cluster in (VICTIM, EVIL):
        await agents.record_reports(cluster.id, [Report(1, START, local)])
    rows = [row for row in await world.rows(ServiceStore) if row.mirrored]
    (theirs,) = [row for row in rows if row.cluster_id == VICTIM.id]
    (evil,) = [row for row in rows if row.cluster_id == EVIL.id]
    assert theirs.id != evil.id != LOCAL and evil.name == "shop"
    assert theirs.name == f"shop-{theirs.id[:8]}", "the control plane has a service of this name"
    for number, name in ((2, "No Label"), (3, "")):
        odd = replace(local, service_id=local_id("cluster", "odd"), name=name)
        await agents.record_reports(EVIL.id, [Report(number, START, odd)])
    assert len([row for row in await world.rows(ServiceStore) if row.mirrored]) == 2
    removed = replace(local, removed=True)
    await agents.record_reports(EVIL.id, [Report(4, START, removed)])
    assert [row.id for row in await world.rows(ServiceStore) if row.mirrored] == [theirs.id]


async def test_a_late_report_of_a_mirrored_service_changes_no_newer_state(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Its deployment is in the ledger once, and marked as late."""
    new = LocalServiceReport(LOCAL, "web", "web", digest="sha256:n", sequence=3)
    old = replace(new, digest="sha256:o", sequence=2, namespace="old")
    later = START + timedelta(minutes=1)
    reports = [Report(1, later, new), Report(2, START, old), Report(3, START, old)]
    await agents.record_reports(EVIL.id, reports)
    (row,) = [row for row in await world.rows(ServiceStore) if row.mirrored]
    assert (row.desired.digest, row.desired.generation, row.namespace) == ("sha256:n", 3, "web")
    assert [(entry.sequence, entry.detail) for entry in await world.ledger()] == [
        (3, {}),
        (2, {"late": True}),
    ]


async def test_a_cluster_shows_no_more_than_its_limits(world: MemoryOperations) -> None:
    """Known services and components stay up to date; the alarm ends when something goes."""
    agents = AgentOperations(world.context, limits=ReportLimits(mirrored=1, components=2))
    first, second = (
        LocalServiceReport(local_id("c", name), name, name, digest="sha256:l", sequence=1)
        for name in ("first", "second")
    )
    refs = [replace(POD, name=name) for name in "abc"]
    present = tuple(component(ref) for ref in refs)
    await agents.record_reports(
        EVIL.id,
        [
            Report(1, START, first),
            Report(2, START, second),
            Report(3, START, InventoryChange(OWN.id, True, present[:2])),
            Report(4, START, InventoryChange(OWN.id, False, present[2:])),
            Report(5, START, InventoryChange(OWN.id, False, (component(refs[0], "new"),))),
        ],
    )
    assert [row.name for row in await world.rows(ServiceStore) if row.mirrored] == ["first"]
    components = {row.name: row.uid for row in await world.rows(ComponentStore)}
    assert components == {"a": "new", "b": "u"}
    cluster = await world.row(ClusterStore, EVIL.id)
    assert cluster is not None and "more services or components than the limit" in cluster.alarm
    gone = InventoryChange(OWN.id, False, (), (refs[1],))
    await agents.record_reports(EVIL.id, [Report(6, START, gone)])
    cluster = await world.row(ClusterStore, EVIL.id)
    assert cluster is not None and cluster.alarm == ""


async def test_a_service_that_is_removed_with_its_reports_leaves_nothing(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    """Its inventory was collected in the same transaction; those of other services stay."""
    mirror = LocalServiceReport(LOCAL, "shop", "shop", digest="sha256:l", sequence=1)
    await agents.record_reports(EVIL.id, [Report(1, START, mirror)])
    bodies = (
        InventoryChange(LOCAL, True, (component(),)),
        SyncStatus(LOCAL, 1, "sha256:l", Phase.HEALTHY),
        InventoryChange(OWN.id, True, (component(),)),
        replace(mirror, removed=True),
        InventoryChange(LOCAL, True, (component(),)),
    )
    reports = [Report(number, START, body) for number, body in enumerate(bodies, 2)]
    await agents.record_reports(EVIL.id, reports)
    assert [row.id for row in await world.rows(ServiceStore, cluster_id=EVIL.id)] == [OWN.id]
    assert [row.service_id for row in await world.rows(ComponentStore)] == [OWN.id]


async def test_a_removed_service_makes_room_for_another(world: MemoryOperations) -> None:
    agents = AgentOperations(world.context, limits=ReportLimits(mirrored=1, components=1))
    first, second = (
        LocalServiceReport(local_id("c", name), name, name, digest="sha256:l", sequence=1)
        for name in ("first", "second")
    )
    bodies = (
        first,
        InventoryChange(first.service_id, True, (component(),)),
        replace(first, removed=True),
        second,
        InventoryChange(second.service_id, True, (component(uid="second"),)),
    )
    reports = [Report(number, START, body) for number, body in enumerate(bodies, 1)]
    await agents.record_reports(EVIL.id, reports)
    assert [row.name for row in await world.rows(ServiceStore) if row.mirrored] == ["second"]
    assert [row.uid for row in await world.rows(ComponentStore)] == ["second"]
    cluster = await world.row(ClusterStore, EVIL.id)
    assert cluster is not None and cluster.alarm == ""


async def test_an_object_that_returns_is_shown_again(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    bodies = (
        InventoryChange(OWN.id, True, (component(),)),
        InventoryChange(OWN.id, False, (), (POD,)),
        InventoryChange(OWN.id, False, (component(uid="again"),)),
    )
    reports = [Report(number, START, body) for number, body in enumerate(bodies, 1)]
    await agents.record_reports(EVIL.id, reports)
    assert [row.uid for row in await world.rows(ComponentStore)] == ["again"]
    gone = Report(4, START, InventoryChange(OWN.id, False, (), (POD,)))
    whole = Report(5, START, InventoryChange(OWN.id, True))
    await agents.record_reports(EVIL.id, [gone, whole])
    assert await world.rows(ComponentStore) == []


async def test_reports_end_no_alarm_of_another_reason(
    world: MemoryOperations, agents: AgentOperations
) -> None:
    await agents.set_alarm(EVIL.id, "two agents")
    inventory = InventoryChange(OWN.id, True, (component(),))
    gone = InventoryChange(OWN.id, False, (), (POD,))
    reports = [Report(1, START, inventory), Report(2, START, gone)]
    await agents.record_reports(EVIL.id, reports)
    cluster = await world.row(ClusterStore, EVIL.id)
    assert cluster is not None and cluster.alarm == "two agents"
