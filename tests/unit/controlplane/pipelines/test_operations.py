"""Operations on pipelines over the store in memory: permissions, audit log, rows and jobs."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

import pytest

from controlplane.access.model.bindings import Project
from controlplane.access.model.users import User
from controlplane.access.ports import UserStore
from controlplane.authorization import ANONYMOUS, DEFAULT_PROJECT, Actor, ActorKind, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.pipelines.gates.kinds import ApprovalRule, ExternalRule, SoakRule
from controlplane.pipelines.model.state import Health
from controlplane.pipelines.operations.drafts import EdgeDraft, GateDraft, PipelineDraft, StageDraft
from controlplane.pipelines.operations.engine_runner import PROMOTE, RENDER
from controlplane.pipelines.ports import (
    PipelineGateStore,
    PipelineServiceStore,
    PipelineStore,
)
from controlplane.platform.audit_entry import AuditVerdict
from controlplane.platform.context import DESIRED_STATE, PIPELINE, RENDER_SERVICES, SERVICE
from controlplane.platform.ports import JobStore, PageQuery
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.ports import DeniedRevisionStore, RevisionStore
from core.errors import Conflict, Forbidden, Invalid, NotFound, TowlineError, Unauthenticated
from core.spec.status import Phase, Problem
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER, person
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START
from tests.fakes.manifests import config_map
from tests.fakes.operations import make_cluster, make_service
from tests.fakes.promotion import IN_DEV, IN_PROD, Promotion, promotion

BO = person(BuiltInRole.EDITOR, "bo")
STRANGER = person(BuiltInRole.ADMIN, "eve", Scope("project:bank"))
Call = Callable[[Promotion, Actor], Awaitable[Any]]


@pytest.fixture
async def line() -> Promotion:
    return await promotion()


@pytest.fixture
async def waiting(line: Promotion) -> Promotion:
    """A release that is healthy in dev and waits for its approval."""
    await line.save()
    await line.push("1")
    return line


async def last_entry(line: Promotion) -> tuple[str, str, str, AuditVerdict]:
    async with line.memory.store.read() as tx:
        entry = (await audit_rows(tx))[-1]
    return entry.actor, entry.action, entry.target, entry.verdict


async def pause(line: Promotion, actor: Actor) -> Any:
    return await line.pipelines.pause(actor, (await line.view()).row.id, "incident")


async def resume(line: Promotion, actor: Actor) -> Any:
    return await line.pipelines.resume(actor, (await line.view()).row.id)


async def approve(line: Promotion, actor: Actor) -> Any:
    return await line.decisions.approve(actor, await line.gate(), await line.digests(), "fine")


async def reject(line: Promotion, actor: Actor) -> Any:
    return await line.decisions.reject(actor, await line.gate(), "no")


async def retry(line: Promotion, actor: Actor) -> Any:
    return await line.decisions.retry(actor, (await line.view()).row.id, "prod")


async def skip(line: Promotion, actor: Actor) -> Any:
    candidate = await line.candidate()
    assert candidate is not None
    return await line.decisions.skip(actor, await line.gate(), candidate.release, "on fire")


async def abort(line: Promotion, actor: Actor) -> Any:
    return await line.decisions.abort(actor, (await line.view()).row.id, "dev", "odd")


async def acknowledge(line: Promotion, actor: Actor) -> Any:
    id = (await line.view()).row.id
    return await line.decisions.acknowledge_rollback(actor, id, "prod")


async def delete(line: Promotion, actor: Actor) -> Any:
    return await line.pipelines.delete(actor, (await line.view()).row.id)


@pytest.mark.parametrize(
    "call", [pause, resume, approve, reject, retry, skip, abort, acknowledge, delete]
)
async def test_a_decision_needs_the_permission_of_the_pipeline(
    waiting: Promotion, call: Call
) -> None:
    """Nothing is written, not even an audit entry, and the pipeline is unknown to a stranger."""
    before, entries = await waiting.view(), await waiting.memory.audited()
    for actor, error in (
        (ANONYMOUS, Unauthenticated),
        (NOBODY, NotFound),
        (STRANGER, NotFound),
        (VIEWER, Forbidden),
    ):
        with pytest.raises(error):
            await call(waiting, actor)
    assert (await waiting.view()).row == before.row
    assert await waiting.memory.audited() == entries


@pytest.mark.parametrize(
    ("call", "action"),
    [(pause, "pausePipeline"), (approve, "approveGate"), (reject, "rejectGate")],
)
async def test_a_decision_is_in_the_audit_log_and_announced(
    waiting: Promotion, call: Call, action: str
) -> None:
    waiting.memory.bus.published.clear()
    await call(waiting, BO)
    expected = ("bo@example.org", action, "shop", AuditVerdict.ALLOWED)
    assert await last_entry(waiting) == expected
    assert (PIPELINE, (await waiting.view()).row.id) in waiting.memory.published


@pytest.mark.parametrize(
    ("call", "action", "reason"),
    [
        (resume, "resumePipeline", "the pipeline is not paused"),
        (abort, "abortRollout", "the stage is not rolling out"),
        (acknowledge, "acknowledgeRollback", "the stage has no rollback notice"),
    ],
)
async def test_an_ignored_decision_is_a_conflict_and_refused_in_the_audit_log(
    waiting: Promotion, call: Call, action: str, reason: str
) -> None:
    with pytest.raises(Conflict, match=reason):
        await call(waiting, ADMIN)
    expected = ("root@example.org", action, "shop", AuditVerdict.REFUSED)
    assert await last_entry(waiting) == expected


async def test_skipping_needs_more_than_approving(waiting: Promotion) -> None:
    with pytest.raises(Forbidden):
        await skip(waiting, BO)
    await skip(waiting, ADMIN)
    assert (await last_entry(waiting))[:3] == ("root@example.org", "skipGate", "shop")
    await waiting.settle()
    assert (await waiting.service(IN_PROD)).desired.generation == 1


@pytest.mark.parametrize("reason", ["", "  ", "x" * 1001])
async def test_a_skip_has_a_reason(waiting: Promotion, reason: str) -> None:
    candidate = await waiting.candidate()
    assert candidate is not None
    with pytest.raises(Invalid) as error:
        await waiting.decisions.skip(ADMIN, await waiting.gate(), candidate.release, reason)
    assert error.value.field == "reason"


async def test_a_saved_pipeline_has_its_rows(line: Promotion) -> None:
    view = await line.save(actor=EDITOR)
    row = await line.memory.row(PipelineStore, view.row.id)
    assert row is not None and (row.name, row.version) == ("shop", 0)
    services = {
        one.service_id: one.promoted for one in await line.memory.rows(PipelineServiceStore)
    }
    assert services == {IN_DEV.id: False, IN_PROD.id: True}
    (gate,) = await line.memory.rows(PipelineGateStore)
    assert (gate.id, gate.pipeline_id) == (await line.gate(), row.id)
    assert await last_entry(line) == (
        "ed@example.org",
        "savePipeline",
        "shop",
        AuditVerdict.ALLOWED,
    )
    assert (PIPELINE, row.id) in line.memory.published
    assert (await line.service(IN_PROD)).spec.promoted
    assert not (await line.service(IN_DEV)).spec.promoted


async def test_saving_needs_the_permission_for_pipelines_and_their_services(
    line: Promotion,
) -> None:
    for actor, error in (
        (ANONYMOUS, Unauthenticated),
        (NOBODY, Forbidden),
        (VIEWER, Forbidden),
        (STRANGER, Forbidden),
    ):
        with pytest.raises(error):
            await line.save(actor=actor)
    await line.save(actor=EDITOR)
    for actor, error in ((VIEWER, Forbidden), (STRANGER, Conflict)):
        with pytest.raises(error):
            await line.save(actor=actor)
    assert len(await line.memory.audited()) == 1


async def test_services_of_others_cannot_be_promoted(line: Promotion) -> None:
    """Neither seen ones, nor those that the actor may not see: these do not exist."""
    await line.memory.given(Project("bank", "bank", START, START))
    for actor, message in (
        (STRANGER, f"service {IN_DEV.id} does not exist"),
        (STRANGER, "does not exist"),
    ):
        with pytest.raises(Invalid, match=message):
            await line.save(actor=actor, project_id="bank")
    reader = person(BuiltInRole.VIEWER, "eve")
    grants = (*reader.policy.grants, *STRANGER.policy.grants)
    reader = replace(reader, policy=replace(reader.policy, grants=grants))
    with pytest.raises(Forbidden):
        await line.save(actor=reader, project_id="bank")
    assert not (await line.service(IN_PROD)).spec.promoted
    assert await line.memory.rows(PipelineServiceStore) == []


async def test_a_service_that_leaves_follows_its_ref_again(waiting: Promotion) -> None:
    stages = [StageDraft("dev", [IN_DEV.id])]
    waiting.memory.bus.published.clear()
    await waiting.save(stages=stages, edges=[])
    service = await waiting.service(IN_PROD)
    assert (service.spec.promoted, service.desired.pinned_sha) == (False, None)
    rows = await waiting.memory.rows(PipelineServiceStore)
    assert [row.service_id for row in rows] == [IN_DEV.id]
    assert await waiting.memory.rows(PipelineGateStore) == []
    assert (DESIRED_STATE, f"prod/{IN_PROD.id}") in waiting.memory.published
    assert (RENDER_SERVICES, "fleet/") in waiting.memory.published


async def test_a_deleted_pipeline_leaves_nothing_but_its_services(waiting: Promotion) -> None:
    view = await waiting.view()
    waiting.memory.bus.published.clear()
    await waiting.pipelines.delete(EDITOR, view.row.id)
    ports: list[Any] = [PipelineStore, PipelineServiceStore, PipelineGateStore]
    assert [await waiting.memory.rows(port) for port in ports] == [[], [], []]
    assert not (await waiting.service(IN_PROD)).spec.promoted
    assert (await last_entry(waiting))[:3] == ("ed@example.org", "deletePipeline", "shop")
    published = waiting.memory.published
    assert (PIPELINE, view.row.id) in published
    assert (DESIRED_STATE, f"prod/{IN_PROD.id}") in published
    assert (RENDER_SERVICES, "fleet/") in published


async def test_a_pipeline_stays_in_its_project(line: Promotion) -> None:
    await line.memory.given(Project("bank", "bank", START, START))
    await line.save()
    with pytest.raises(Conflict, match="cannot be moved to another project"):
        await line.save(project_id="bank")


async def test_saving_again_keeps_ids_and_what_waits(waiting: Promotion) -> None:
    before, candidate = await waiting.view(), await waiting.candidate()
    after = await waiting.save(ApprovalRule(2), SoakRule(60))
    assert [stage.id for stage in after.spec.stages] == [stage.id for stage in before.spec.stages]
    (edge,) = after.spec.edges
    assert edge.id == before.spec.edges[0].id
    assert edge.gates[0].id == before.spec.edges[0].gates[0].id
    assert after.row.version == before.row.version + 1
    assert await waiting.candidate() == candidate
    gates = {row.id for row in await waiting.memory.rows(PipelineGateStore)}
    assert gates == {gate.id for gate in edge.gates}


async def test_two_pipelines_never_promote_one_service(line: Promotion) -> None:
    await line.save()
    with pytest.raises(Conflict, match="service 'shop' belongs to another pipeline: shop"):
        await line.save(name="second")
    assert [view.row.name for view in await line.views()] == ["shop"]


async def test_pipelines_are_seen_by_their_readers_with_what_they_may_see(
    waiting: Promotion,
) -> None:
    assert (await waiting.pipelines.page(NOBODY, PageQuery())).items == ()
    assert (await waiting.pipelines.page(STRANGER, PageQuery())).items == ()
    id = (await waiting.view()).row.id
    for actor in (NOBODY, STRANGER):
        with pytest.raises(NotFound):
            await waiting.pipelines.get(actor, id)
    narrow = person(BuiltInRole.VIEWER, "vi", Scope(f"pipeline:{id}"))
    for view in (
        await waiting.pipelines.get(narrow, id),
        *(await waiting.pipelines.page(narrow, PageQuery())).items,
    ):
        assert (view.row.id, dict(view.services), dict(view.clusters)) == (id, {}, {})
    full = await waiting.pipelines.get(VIEWER, None, "shop")
    assert set(full.services) == {IN_DEV.id, IN_PROD.id}
    assert set(full.clusters) == {"dev", "prod"}


async def test_an_approval_applies_exactly_what_was_shown(waiting: Promotion) -> None:
    sha = (await waiting.service(IN_DEV)).desired.commit_sha
    digests = await waiting.digests()
    waiting.memory.bus.published.clear()
    await approve(waiting, BO)
    await waiting.settle()
    desired = (await waiting.service(IN_PROD)).desired
    assert (desired.pinned_sha, desired.commit_sha) == (sha, sha)
    assert (desired.digest, desired.generation) == (digests[IN_PROD.id], 1)
    assert desired.author == "Ada <ada@example.org>"
    revisions = await waiting.memory.rows(RevisionStore, service_id=IN_PROD.id)
    assert [(one.sha, one.digest) for one in revisions] == [(sha, digests[IN_PROD.id])]
    entry = (await waiting.memory.ledger())[-1]
    assert (entry.stage, entry.service_id) == (LedgerStage.PROMOTED, IN_PROD.id)
    published = waiting.memory.published
    assert (SERVICE, IN_PROD.id) in published
    assert (DESIRED_STATE, f"prod/{IN_PROD.id}") in published
    assert (RENDER_SERVICES, f"fleet/{IN_PROD.id}") in published


async def test_a_promotion_that_runs_twice_changes_nothing(waiting: Promotion) -> None:
    await approve(waiting, BO)
    async with waiting.memory.store.write() as tx:
        (job,) = await tx[JobStore].claim((PROMOTE,), "test", waiting.memory.clock.now(), 10)
    await waiting.promotions.promote(job)
    before, ledger = await waiting.service(IN_PROD), await waiting.memory.ledger()
    await waiting.promotions.promote(job)
    assert await waiting.service(IN_PROD) == before
    assert await waiting.memory.ledger() == ledger


@pytest.mark.parametrize(
    ("digests", "error", "message"),
    [
        ({}, Invalid, "specify the digest of each service that you approve; waiting: prod-shop="),
        ({"prod-shop": "sha256:other"}, Conflict, "the release has changed since it was shown"),
        ({"other": "sha256:other"}, Conflict, "the release has changed since it was shown"),
    ],
)
async def test_only_the_waiting_digests_can_be_approved(
    waiting: Promotion, digests: Any, error: type[TowlineError], message: str
) -> None:
    with pytest.raises(error, match=message):
        await waiting.decisions.approve(BO, await waiting.gate(), digests)


async def test_nothing_is_approved_where_nothing_waits(line: Promotion) -> None:
    await line.save()
    with pytest.raises(Conflict, match="nothing waits at this gate"):
        await line.decisions.approve(BO, await line.gate(), {IN_PROD.id: "sha256:guess"})
    with pytest.raises(Invalid, match="waiting: nothing"):
        await line.decisions.approve(BO, await line.gate(), {})
    with pytest.raises(NotFound):
        await line.decisions.approve(BO, "none", {IN_PROD.id: "sha256:guess"})


@pytest.mark.parametrize("name", ["ada", "ADA"])
async def test_an_author_does_not_approve_their_own_change(waiting: Promotion, name: str) -> None:
    with pytest.raises(Conflict, match="the author or pusher of a release cannot approve it"):
        await approve(waiting, person(BuiltInRole.ADMIN, name))


async def test_a_service_account_approves_where_it_is_named(waiting: Promotion) -> None:
    robot = replace(person(BuiltInRole.EDITOR, "ci"), kind=ActorKind.SERVICE_ACCOUNT)
    with pytest.raises(Forbidden, match="only if `people` of the gate names it"):
        await approve(waiting, robot)
    await waiting.save(ApprovalRule(people=("ci@example.org",)))
    with pytest.raises(Conflict, match="only these may approve here: ci@example.org"):
        await approve(waiting, BO)
    await approve(waiting, robot)
    await waiting.settle()
    assert (await waiting.service(IN_PROD)).desired.generation == 1


async def test_texts_of_users_are_cut_at_their_limit(waiting: Promotion) -> None:
    """The audit log keeps them for years."""
    id = (await waiting.view()).row.id
    for call, field in (
        (waiting.pipelines.pause(BO, id, "x" * 2_000), "reason"),
        (waiting.decisions.reject(BO, await waiting.gate(), "x" * 2_000), "comment"),
    ):
        await call
        async with waiting.memory.store.read() as tx:
            entry = (await audit_rows(tx))[-1]
        assert entry.detail["event"][field] == "x" * 999 + "…"


async def test_the_approval_of_somebody_who_was_disabled_does_not_count(
    waiting: Promotion,
) -> None:
    await waiting.save(ApprovalRule(2))
    await approve(waiting, BO)
    user = User("bo", "bo@example.org", "bo", START, START, disabled_at=START)
    async with waiting.memory.store.write() as tx:
        await tx[UserStore].add(user)
    await approve(waiting, EDITOR)
    await waiting.settle()
    assert (await waiting.service(IN_PROD)).desired.generation == 0


async def test_a_retry_needs_a_rejected_or_failed_release(waiting: Promotion) -> None:
    id = (await waiting.view()).row.id
    with pytest.raises(Conflict, match="stage 'prod' has no rejected or failed release"):
        await waiting.decisions.retry(BO, id, "prod")
    with pytest.raises(NotFound, match="pipeline 'shop' has no stage 'none'"):
        await waiting.decisions.retry(BO, id, "none")
    await reject(waiting, BO)
    await retry(waiting, BO)
    assert (await last_entry(waiting))[1] == "retryPipeline"
    candidate = await waiting.candidate()
    assert candidate is not None and (candidate.refusal, candidate.attempt) == (None, 2)


async def test_a_failed_stage_is_retried(waiting: Promotion) -> None:
    await approve(waiting, BO)
    await waiting.settle()
    await waiting.report(IN_PROD, Phase.FAILED, (Problem("crash loop"),))
    await waiting.settle()
    state = await waiting.state("prod")
    assert (state.health, state.reason) == (Health.FAILED, "shop: crash loop")
    await retry(waiting, BO)
    assert (await waiting.state("prod")).attempt == 2


async def test_an_abort_needs_a_release(line: Promotion) -> None:
    view = await line.save()
    with pytest.raises(Conflict, match="stage 'prod' has no release"):
        await line.decisions.abort(BO, view.row.id, "prod")
    with pytest.raises(NotFound):
        await line.decisions.abort(BO, view.row.id, "none")


async def test_a_change_after_the_approval_fails_the_stage(waiting: Promotion) -> None:
    """The service would get another bundle than the approved one."""
    await approve(waiting, BO)
    sha = (await waiting.service(IN_DEV)).desired.commit_sha or ""
    folders = waiting.memory.manifests.commits[sha]
    waiting.memory.manifests.commits[sha] = {**folders, "prod": []}
    await waiting.settle()
    state = await waiting.state("prod")
    assert state.health is Health.FAILED and "was approved: nothing was promoted" in state.reason
    assert (await waiting.service(IN_PROD)).desired.digest is None


async def test_a_denied_revision_is_not_applied_after_its_approval(waiting: Promotion) -> None:
    await approve(waiting, BO)
    digest = (await waiting.state("prod")).revisions[IN_PROD.id].digest
    await waiting.denials.deny(ADMIN, digest, "leaks")
    await waiting.settle()
    assert (await waiting.service(IN_PROD)).desired.digest is None
    assert (await waiting.state("prod")).health is Health.FAILED


async def test_a_denied_commit_waits_until_it_is_allowed(waiting: Promotion) -> None:
    """Denial and removal are announced to the pipeline, which stores both."""
    id, sha = (await waiting.view()).row.id, (await waiting.service(IN_DEV)).desired.commit_sha
    waiting.memory.bus.published.clear()
    await waiting.denials.deny(ADMIN, sha or "", "leaks")
    assert waiting.memory.published == [(PIPELINE, id)]
    assert (await last_entry(waiting))[1:3] == ("denyRevision", sha)
    await waiting.settle()
    candidate = await waiting.candidate()
    assert candidate is not None and "is denied: root@example.org: leaks" in candidate.reason
    await waiting.denials.allow(ADMIN, sha or "")
    candidate = await waiting.candidate()
    assert candidate is not None and candidate.reason == "waiting for gate 0"
    assert await waiting.memory.rows(DeniedRevisionStore) == []


async def test_the_audit_log_of_a_project_has_its_denials(line: Promotion) -> None:
    sha = "a" * 40
    for project in (DEFAULT_PROJECT, None):
        await line.denials.deny(ADMIN, sha, "leaks", project)
    await line.denials.allow(ADMIN, sha)
    async with line.memory.store.read() as tx:
        entries = [row for row in await audit_rows(tx) if row.target == sha]
    assert [(entry.action, entry.project_id) for entry in entries[:2]] == [
        ("denyRevision", DEFAULT_PROJECT),
        ("denyRevision", ""),
    ]
    allowed = {entry.project_id for entry in entries[2:] if entry.action == "allowRevision"}
    assert allowed == {DEFAULT_PROJECT, ""}


@pytest.mark.parametrize(
    ("revision", "reason", "field"),
    [("abc", "why", "revision"), ("", "why", "revision"), ("a" * 40, " ", "reason")],
)
async def test_a_denial_names_a_whole_revision_and_a_reason(
    line: Promotion, revision: str, reason: str, field: str
) -> None:
    with pytest.raises(Invalid) as error:
        await line.denials.deny(ADMIN, revision, reason)
    assert error.value.field == field


async def test_a_render_that_fails_is_the_reason_of_the_wait(line: Promotion) -> None:
    await line.save()
    error = Invalid("web.yaml: no kind")
    line.memory.manifests.push("fleet", {"dev": [config_map("a", v="1")], "prod": error})
    await line.deliver()
    candidate = await line.candidate()
    assert candidate is not None
    assert candidate.reason == "cannot be rendered: web.yaml: no kind"
    with pytest.raises(Invalid, match="waiting: nothing"):
        await line.decisions.approve(BO, await line.gate(), {})
    await line.push("2")
    await approve(line, BO)


async def test_an_answer_from_outside_counts_from_its_account_alone(line: Promotion) -> None:
    await line.save(ExternalRule("ci@example.org"))
    await line.push("1")
    gate, candidate = await line.gate(), await line.candidate()
    assert candidate is not None
    for actor, error in ((VIEWER, Forbidden), (STRANGER, NotFound), (BO, Conflict)):
        with pytest.raises(error):
            await line.decisions.answer(actor, gate, candidate.release, True)
    robot = person(BuiltInRole.VIEWER, "ci")
    await line.decisions.answer(robot, gate, candidate.release, True, "all green")
    assert (await last_entry(line))[:3] == ("ci@example.org", "answerGate", "shop")
    await line.settle()
    assert (await line.service(IN_PROD)).desired.generation == 1


async def test_a_job_of_a_deleted_pipeline_does_nothing(waiting: Promotion) -> None:
    await approve(waiting, BO)
    async with waiting.memory.store.write() as tx:
        jobs = await tx[JobStore].claim((PROMOTE, RENDER), "t", waiting.memory.clock.now(), 10)
    await delete(waiting, ADMIN)
    for job in jobs:
        await waiting.promotions.promote(job)
    assert (await waiting.service(IN_PROD)).desired.digest is None
    assert await waiting.memory.rows(PipelineStore) == []


async def test_pipelines_are_found_by_their_services(line: Promotion) -> None:
    other = make_service("other", make_cluster("dev"))
    await line.memory.given(other)
    view = await line.save()
    found = line.pipelines.engine.pipelines_of_services
    assert await found([IN_PROD.id, other.id]) == await found([IN_DEV.id]) == [view.row.id]
    assert await found([other.id]) == []


async def test_a_draft_is_refused_by_the_name_of_its_fault(line: Promotion) -> None:
    dev = StageDraft("dev", [IN_DEV.id])
    drafts: list[tuple[dict[str, Any], str]] = [
        ({"edges": [EdgeDraft("dev", "none")]}, "stage 'none' does not exist"),
        ({"edges": [EdgeDraft("none", "dev")]}, "stage 'none' does not exist"),
        ({"stages": [StageDraft("dev", ["none"])], "edges": []}, "service none does not exist"),
        ({"stages": [dev, dev], "edges": []}, "duplicate stage name dev"),
        ({"edges": [EdgeDraft("dev", "prod")] * 2}, "duplicate edge dev → prod"),
    ]
    for fields, message in drafts:
        with pytest.raises(Invalid, match=message):
            await line.save(**fields)
    assert await line.memory.rows(PipelineStore) == []


async def test_gates_of_a_draft_belong_to_edges_that_exist(line: Promotion) -> None:
    view = await line.save()
    gate = GateDraft("gate 0", SoakRule(60))
    draft = PipelineDraft("shop", [], [EdgeDraft("dev", "prod", [gate])])
    (gates,) = line.pipelines.draft_gates(view.spec, draft).values()
    assert [(one.id, one.rule) for one in gates] == [(await line.gate(), SoakRule(60))]
    other = replace(draft, edges=[EdgeDraft("prod", "dev", [gate])])
    with pytest.raises(Invalid, match="no edge from prod to dev exists"):
        line.pipelines.draft_gates(view.spec, other)
