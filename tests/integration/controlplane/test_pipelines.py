"""A release from its first stage through an approval into the next, without edges."""

import asyncio
from dataclasses import replace

import pytest

from controlplane.access.operations.groups import GroupChange
from controlplane.authorization import ActorKind
from controlplane.authorization.roles import BuiltInRole as Role
from controlplane.pipelines.gates.kinds import ApprovalRule
from controlplane.pipelines.model.state import GateStatus, Health
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import PROMOTE, RENDER, TICK
from controlplane.pipelines.operations.views import PipelineView
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.ports import JobStore, PageQuery
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus
from controlplane.services.operations.services import ServiceChange
from controlplane.services.ports import LedgerStore
from core.errors import Conflict, Forbidden, Invalid
from core.identity import ServiceId
from core.spec.status import Phase, Problem
from core.spec.verification import Verification
from tests.fakes.manifests import config_map
from tests.integration.controlplane.conftest import World, person


class Line:
    """dev → prod with one approval."""

    def __init__(self, world: World, dev: Service, prod: Service) -> None:
        self.world, self.dev, self.prod = world, dev, prod
        self.approver = person(Role.EDITOR, "bo")

    @classmethod
    async def make(cls, world: World, **prod: object) -> "Line":
        cluster, other = await world.cluster("dev"), await world.cluster("prod")
        repository = await world.repository()
        first = await world.service(cluster, repository, "shop", folder="dev")
        second = await world.service(other, repository, "shop", folder="prod", **prod)
        line = cls(world, first, second)
        await line.save()
        return line

    async def save(
        self,
        quorum: int = 1,
        watch: Verification | None = None,
        *,
        prod: bool = True,
        people: tuple[str, ...] = (),
        groups: tuple[str, ...] = (),
    ) -> PipelineView:
        gate = GateDraft("sign-off", ApprovalRule(quorum, people=people, groups=groups))
        later = StageDraft("prod", [self.prod.id], verification=watch)
        draft = PipelineDraft(
            "shop",
            [StageDraft("dev", [self.dev.id]), *([later] if prod else [])],
            [EdgeDraft("dev", "prod", [gate])] if prod else [],
        )
        return await self.world.pipelines.save(self.world.admin, draft)

    async def push(self, value: str) -> str:
        objects = [config_map("a", v=value)]
        repository = self.dev.repository_id or ""
        sha = self.world.manifests.push(repository, {"dev": objects, "prod": objects})
        await self.world.delivery.deliver(repository)
        await self.world.report(self.dev)
        await self.settle()
        return sha

    async def settle(self) -> None:
        """Let the engine and its workers come to rest."""
        world = self.world
        work = {
            RENDER: world.promotions.render,
            PROMOTE: world.promotions.promote,
            TICK: world.promotions.tick,
        }
        await world.pipelines.engine.advance((await self.view()).row.id)
        for _ in range(20):
            async with world.deps.store.write() as tx:
                jobs = await tx[JobStore].claim(work, "test", world.clock.now(), 10)
            for job in jobs:
                await work[job.kind](job)
                async with world.deps.store.write() as tx:
                    await tx[JobStore].finish(job)
            if not jobs:
                return

    async def view(self) -> PipelineView:
        return await self.world.pipelines.get(self.world.admin, None, "shop")

    async def waiting(self) -> tuple[str, dict[ServiceId, str]]:
        """The gate, and the digests that wait at it."""
        view = await self.view()
        (edge,) = view.spec.edges
        candidate = view.state.candidates.get(edge.id)
        rendered = {}
        if candidate is not None:
            rendered = view.state.stages[edge.target].rendered.get(candidate.release, {})
        return edge.gates[0].id, {ServiceId(id): one.digest for id, one in rendered.items()}

    async def approve(self) -> None:
        gate, digests = await self.waiting()
        await self.world.decisions.approve(self.approver, gate, digests, "looks good")
        await self.settle()


async def test_nothing_enters_a_later_stage_by_itself(world: World) -> None:
    """Commits go to dev at once; prod waits for the approval, with what it would run shown."""
    line = await Line.make(world)
    await line.push("1")
    assert (await world.get(line.dev)).desired.generation == 1
    assert (await world.get(line.prod)).desired.generation == 0
    _, digests = await line.waiting()
    assert digests.keys() == {line.prod.id}


async def test_an_approval_promotes_exactly_what_was_shown(world: World) -> None:
    """Prod gets the commit and digest that were approved; the ledger and history say so."""
    line = await Line.make(world)
    sha = await line.push("1")
    _, digests = await line.waiting()
    await line.approve()
    prod = await world.get(line.prod)
    assert (prod.desired.pinned_sha, prod.desired.digest) == (sha, digests[line.prod.id])
    await world.report(line.prod)
    await line.settle()
    view = await line.view()
    (_, target) = view.spec.stages
    assert view.state.stages[target.id].health is Health.HEALTHY
    async with world.deps.store.read() as tx:
        entries = await tx[LedgerStore].select(service_id=prod.id)
    assert LedgerStage.PROMOTED in [entry.stage for entry in entries]


async def test_two_people_who_approve_at_once_both_count(world: World) -> None:
    """And whoever clicks twice at once counts once."""
    line = await Line.make(world)
    await line.save(quorum=2)
    await line.push("1")
    gate, digests = await line.waiting()
    bo, cy = person(Role.EDITOR, "bo"), person(Role.EDITOR, "cy")
    approve = world.decisions.approve
    results = await asyncio.gather(
        *(approve(one, gate, digests) for one in (bo, cy, bo)), return_exceptions=True
    )
    (refused,) = [one for one in results if isinstance(one, Conflict)]
    # The gate may be open by the time that the second click is judged.
    late = "no release is waiting at gate sign-off"
    assert refused.message in ("bo@example.org has already approved", late)
    await line.settle()
    assert (await world.get(line.prod)).desired.digest == digests[line.prod.id]


async def test_whoever_is_in_a_gates_group_may_approve(world: World) -> None:
    """In the group that everybody is in, too; that of others stays shut."""
    line = await Line.make(world)
    await world.groups.create(world.admin, GroupChange("sre"))
    await line.save(groups=("sre",))
    await line.push("1")
    with pytest.raises(Conflict, match="only these may approve here: sre"):
        await line.approve()
    await world.groups.create(world.admin, GroupChange("all-hands", everyone=True))
    await line.save(groups=("sre", "all-hands"))
    await line.approve()
    assert (await world.get(line.prod)).desired.generation == 1


async def test_the_second_approval_does_not_count_with_that_of_somebody_disabled(
    world: World,
) -> None:
    """Nothing has looked at the pipeline since they left."""
    line = await Line.make(world)
    await line.save(quorum=2)
    await line.push("1")
    gate, digests = await line.waiting()
    user = await world.people.upsert(world.admin, "bo@example.org", None, Role.EDITOR)
    await world.decisions.approve(person(Role.EDITOR, "bo"), gate, digests)
    await world.people.disable(world.admin, user.id)
    await world.decisions.approve(person(Role.EDITOR, "cy"), gate, digests)
    await line.settle()
    assert (await world.get(line.prod)).desired.generation == 0


async def test_a_service_that_leaves_is_watched_by_its_own_policy_at_once(world: World) -> None:
    """Its agent gets new desired state; a service without a stage policy is left alone."""
    line = await Line.make(world)
    await line.save(watch=Verification(60))
    await line.push("1")
    await line.approve()
    before = await world.get(line.prod)
    assert before.effective_verification == Verification(60)
    await line.save(prod=False)
    after = await world.get(line.prod)
    assert (after.effective_verification, after.desired.generation) == (
        None,
        before.desired.generation + 1,
    )
    await line.save()
    await world.pipelines.delete(world.admin, (await line.view()).row.id)
    assert (await world.get(line.prod)).desired.generation == after.desired.generation


async def test_a_change_after_approval_promotes_nothing(world: World) -> None:
    """The configuration of prod changes between approval and promotion: refused, and said."""
    line = await Line.make(world, configuration={"v": "x"})
    objects = [config_map("a", v="$v")]
    repository = line.dev.repository_id or ""
    world.manifests.push(repository, {"dev": objects, "prod": objects})
    await world.delivery.deliver(repository)
    await world.report(line.dev)
    await line.settle()
    gate, digests = await line.waiting()
    await world.decisions.approve(line.approver, gate, digests)
    change = ServiceChange(configuration={"v": "smuggled"})
    await world.services.update(world.admin, line.prod.id, change)
    await line.settle()
    prod = await world.get(line.prod)
    assert prod.desired.digest is None
    view = await line.view()
    assert "was approved" in view.state.stages[view.spec.stages[1].id].reason


async def test_approving_something_else_is_refused(world: World) -> None:
    """Old digests, no digests and no right each get their own sentence."""
    line = await Line.make(world)
    await line.push("1")
    gate, old = await line.waiting()
    await line.push("2")
    with pytest.raises(Conflict, match="the release has changed since"):
        await world.decisions.approve(line.approver, gate, old)
    with pytest.raises(Invalid, match="specify the digest"):
        await world.decisions.approve(line.approver, gate, {})
    _, digests = await line.waiting()
    with pytest.raises(Forbidden, match="needs role editor"):
        await world.decisions.approve(person(Role.VIEWER), gate, digests)
    assert (await world.get(line.prod)).desired.generation == 0


@pytest.mark.parametrize("name", ["ada", "Ada"])
async def test_the_author_cannot_approve_their_own_change(world: World, name: str) -> None:
    """By default somebody else has to look; whether the address has capitals is no matter."""
    line = await Line.make(world)
    await line.push("1")
    line.approver = person(Role.ADMIN, name)
    with pytest.raises(Conflict, match="author"):
        await line.approve()
    assert (await world.get(line.prod)).desired.generation == 0


async def test_the_pusher_cannot_approve_a_change_with_a_forged_author(world: World) -> None:
    """The Git host knows the account; a webhook of another repository proves nothing here."""
    line = await Line.make(world)
    sha = await line.push("1")
    other = await world.repository("https://git.example/other.git")
    await world.repositories.record_push(other.id, "bo", "bo@example.org", [sha])
    await world.repositories.record_push("unknown", "bo", "bo@example.org", [sha])
    for _ in range(2):
        await world.repositories.record_push(
            line.dev.repository_id or "", "eve", "Eve@Example.org", [sha, "f" * 40]
        )
    (release,) = (await line.view()).state.releases.values()
    assert "eve" not in release.author
    assert await world.pipelines.pushers(release) == ["eve <Eve@Example.org>"]
    bo, line.approver = line.approver, person(Role.ADMIN, "eve")
    with pytest.raises(Conflict, match="pusher"):
        await line.approve()
    line.approver = bo
    await line.approve()
    assert (await world.get(line.prod)).desired.generation == 1


async def test_a_program_is_nobody_of_a_quorum_unless_it_is_named(world: World) -> None:
    """Who commits may make a CI say yes as well."""
    line = await Line.make(world)
    await line.push("1")
    ci = replace(person(Role.EDITOR, "ci"), kind=ActorKind.SERVICE_ACCOUNT)
    gate, digests = await line.waiting()
    with pytest.raises(Forbidden, match="a service account can approve only"):
        await world.decisions.approve(ci, gate, digests)
    await line.save(people=(ci.email,))
    await world.decisions.approve(ci, gate, digests)
    await line.settle()
    assert (await world.get(line.prod)).desired.digest == digests[line.prod.id]


async def test_a_rejection_stops_this_release_only(world: World) -> None:
    """A rejected release stays out; the next one may be approved."""
    line = await Line.make(world)
    await line.push("1")
    gate, _ = await line.waiting()
    await world.decisions.reject(line.approver, gate, "not on a Friday")
    await line.settle()
    assert (await world.get(line.prod)).desired.generation == 0
    view = await line.view()
    (edge,) = view.spec.edges
    candidate = view.state.candidates[edge.id]
    assert candidate.refusal is not None and candidate.refusal.reason
    await line.push("2")
    await line.approve()
    assert (await world.get(line.prod)).desired.generation == 1


async def test_a_failing_first_stage_is_not_left(world: World) -> None:
    """While dev is failing, the gate to prod stays shut and approval gets nowhere."""
    line = await Line.make(world)
    repository = line.dev.repository_id or ""
    objects = [config_map("a")]
    world.manifests.push(repository, {"dev": objects, "prod": objects})
    await world.delivery.deliver(repository)
    problem = Problem("Deployment shop/web: crash loop")
    await world.report(line.dev, Phase.DEGRADED, (problem,))
    await line.settle()
    view = await line.view()
    (edge,) = view.spec.edges
    candidate = view.state.candidates.get(edge.id)
    statuses = [gate.status for gate in candidate.gates.values()] if candidate else []
    assert GateStatus.OPEN not in statuses
    assert (await world.get(line.prod)).desired.generation == 0


async def test_a_repair_in_progress_is_not_yet_a_failure(world: World) -> None:
    """What failed with the last state says nothing about the next one."""
    line = await Line.make(world)
    await line.push("1")
    await world.report(line.dev, Phase.FAILED, (Problem("no"),))
    assert (await world.get(line.dev)).status is ServiceStatus.FAILED
    repository = line.dev.repository_id or ""
    world.manifests.push(repository, {"dev": [config_map("b")], "prod": [config_map("b")]})
    await world.delivery.deliver(repository)
    assert (await world.get(line.dev)).status is ServiceStatus.OUT_OF_SYNC


async def test_saving_again_keeps_what_waits(world: World) -> None:
    """An unchanged pipeline keeps its ids, so a gate in an open browser stays approvable."""
    line = await Line.make(world)
    await line.push("1")
    gate, digests = await line.waiting()
    await line.save()
    assert await line.waiting() == (gate, digests)


async def test_a_service_belongs_to_one_pipeline(world: World) -> None:
    """A second pipeline cannot take a service that another promotes."""
    line = await Line.make(world)
    draft = PipelineDraft(
        "second",
        [StageDraft("a", [line.dev.id]), StageDraft("b", [line.prod.id])],
        [EdgeDraft("a", "b")],
    )
    with pytest.raises(Conflict, match="belongs to another pipeline"):
        await world.pipelines.save(world.admin, draft)


async def test_a_service_made_for_a_pipeline_waits_for_it(world: World) -> None:
    """Defined before its pipeline, a promoted service deploys nothing by itself."""
    cluster, repository = await world.cluster("early"), await world.repository()
    service = await world.service(cluster, repository, promoted=True)
    world.manifests.push(repository.id, {"shop": [config_map("a")]})
    await world.delivery.deliver(repository.id)
    assert (await world.get(service)).desired.generation == 0
    await world.services.release(world.admin, service.id)
    await world.delivery.deliver(repository.id)
    assert (await world.get(service)).desired.generation == 1


async def test_a_changed_input_enters_a_later_stage_by_its_gate_only(world: World) -> None:
    """Editing the service behind a gate deploys nothing until the next release is approved."""
    line = await Line.make(world)
    await line.push("1")
    await line.approve()
    await world.report(line.prod)
    before = await world.get(line.prod)
    world.manifests.push(
        line.dev.repository_id or "",
        {name: [config_map("a", v="2")] for name in ("dev", "prod", "smuggled")},
    )
    await world.services.update(world.admin, line.prod.id, ServiceChange(folder="smuggled"))
    await world.delivery.deliver(line.dev.repository_id or "")
    after = await world.get(line.prod)
    assert (after.desired.digest, after.desired.generation) == (
        before.desired.digest,
        before.desired.generation,
    )
    await world.report(line.dev)
    await line.settle()
    await line.approve()
    assert (await world.get(line.prod)).desired.digest != before.desired.digest


async def test_a_stage_that_runs_something_else_is_not_healthy(world: World) -> None:
    """A rollback by hand behind a gate is shown, not hidden under the release's name."""
    line = await Line.make(world)
    await line.push("1")
    await line.approve()
    await world.report(line.prod)
    first = await world.get(line.prod)
    await line.push("2")
    await line.approve()
    await world.report(line.prod)
    await line.settle()
    view = await line.view()
    stage = view.spec.stages[1].id
    assert view.state.stages[stage].health is Health.HEALTHY
    await world.services.rollback(world.admin, line.prod.id, first.desired.revision_id or "")
    await world.report(line.prod)
    await line.settle()
    held = (await line.view()).state.stages[stage]
    assert held.health is not Health.HEALTHY
    assert "does not run this release" in held.reason


async def test_an_ignored_approval_is_audited_as_refused(world: World) -> None:
    """The audit row tells how a decision ended."""
    line = await Line.make(world)
    await line.push("1")
    line.approver = person(Role.ADMIN, "ada")
    with pytest.raises(Conflict):
        await line.approve()
    page = await world.records.page(world.admin, PageQuery(first=1))
    assert [(row.action, row.verdict) for row in page.items] == [
        ("approveGate", AuditVerdict.REFUSED)
    ]


async def test_a_deleted_service_does_not_silence_its_stage(world: World) -> None:
    """The stage behind the gate says that something is missing."""
    line = await Line.make(world)
    await line.push("1")
    await line.approve()
    await world.report(line.prod)
    await line.settle()
    await world.services.delete(world.admin, line.prod.id)
    await line.settle()
    view = await line.view()
    held = view.state.stages[view.spec.stages[1].id]
    assert (held.health, held.reason) == (Health.FAILED, "a service of the stage was deleted")


async def test_a_pipelines_service_cannot_be_released(world: World) -> None:
    """While a pipeline promotes it, nobody lets it follow its ref."""
    line = await Line.make(world, promoted=True)
    with pytest.raises(Conflict, match="from pipeline 'shop'"):
        await world.services.release(world.admin, line.prod.id)


async def test_deleting_a_pipeline_lets_services_follow_their_refs(world: World) -> None:
    """Prod follows the branch again once nothing promotes it."""
    line = await Line.make(world)
    await line.push("1")
    await world.pipelines.delete(world.admin, (await line.view()).row.id)
    await world.delivery.deliver(line.dev.repository_id or "")
    assert (await world.get(line.prod)).desired.generation == 1


async def test_unknown_services_and_stages_are_refused(world: World) -> None:
    """A draft that can never work is refused with the place named."""
    line = await Line.make(world)
    for stages, edges, message in (
        ([StageDraft("a", ["nonsense"])], [], "service nonsense does not exist"),
        ([StageDraft("a", [line.dev.id])], [EdgeDraft("a", "b")], "stage 'b' does not exist"),
        ([StageDraft("a", [])], [], "stages"),
    ):
        with pytest.raises(Invalid, match=message):
            await world.pipelines.save(world.admin, PipelineDraft("x", stages, edges))
