"""The inbox: what waits for one user, and for nobody else."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.access.model.bindings import AccessRequest, AccessRequestState
from controlplane.access.operations.access_requests import AccessRequests
from controlplane.access.operations.groups import Groups
from controlplane.authorization import (
    ANONYMOUS,
    INSTALLATION,
    Actor,
    ActorKind,
    Grant,
    Policy,
    ResourceKind,
    Role,
    Rule,
    Verb,
)
from controlplane.inbox.operations import Inbox, InboxItems
from controlplane.pipelines.engine.codec import pipeline_to_json, state_to_json
from controlplane.pipelines.engine.effects import RunCheck
from controlplane.pipelines.engine.events import CheckAnswered, StageRenderFailed
from controlplane.pipelines.gates.kinds import ApprovalRule, HttpRule, WorkflowRule
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import Step
from controlplane.pipelines.model.pipeline import Gate, GateId, StageId
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.model.state import Health
from controlplane.services.model.service import Service
from core.errors import Invalid, Unauthenticated
from core.spec.objects import ObjectRef
from core.spec.status import Phase
from tests.fakes.access import make_group, make_user
from tests.fakes.actors import ADMIN, EDITOR, NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)
from tests.fakes.pipelines import Line, two_stages

DEV = make_cluster("dev")
GATE = "dev prod 0"


@pytest.fixture
def world() -> MemoryOperations:
    return operations_over_memory()


async def inbox(world: MemoryOperations, actor: Actor, first: int = 50) -> InboxItems:
    return await Inbox(world.context, AccessRequests(world.context)).of_actor(actor, first)


def stored(line: Line) -> PipelineRecord:
    spec, state = pipeline_to_json(line.pipeline), state_to_json(line.state)
    return PipelineRecord("p", "shop", START, START, spec, state)


def waiting(line: Line, author: str = "Ann <ann@example.org>") -> Line:
    """A release waits for an approval before prod."""
    line.render("prod", line.observe("c1", author=author))
    return line


async def gates(world: MemoryOperations, actor: Actor) -> list[str]:
    return [approval.gate for approval in (await inbox(world, actor)).approvals.items]


async def test_a_release_waits_for_those_who_may_approve_it(world: MemoryOperations) -> None:
    await world.given(stored(waiting(Line(two_stages()))))
    assert await gates(world, ADMIN) == [GATE]
    for actor in (VIEWER, NOBODY):
        assert (await inbox(world, actor)).total == 0


async def test_a_user_who_cannot_read_a_pipeline_is_not_asked(world: MemoryOperations) -> None:
    """The plan of the release is hidden from such a user, and nobody approves blindly."""
    await world.given(stored(waiting(Line(two_stages()))))
    rule = Rule((Verb.APPROVE,), (ResourceKind.PIPELINE,))
    blind = Grant(Role("blind", "blind", START, START, rules=(rule,)))
    assert await gates(world, replace(NOBODY, policy=Policy((blind,)))) == []
    reader = Policy((blind, *VIEWER.policy.grants))
    assert await gates(world, replace(NOBODY, policy=reader)) == [GATE]


@pytest.mark.parametrize(
    "line",
    [
        waiting(Line(two_stages(ApprovalRule(people=("sue@example.org",))))),
        waiting(Line(two_stages()), f"Root <{ADMIN.email}>"),
        Line(two_stages()),
    ],
    ids=["other approvers", "own release", "nothing waits"],
)
async def test_a_user_who_cannot_approve_is_not_asked(world: MemoryOperations, line: Line) -> None:
    await world.given(stored(line))
    assert await gates(world, ADMIN) == []


async def test_a_member_of_a_group_of_approvers_is_asked(world: MemoryOperations) -> None:
    await world.given(stored(waiting(Line(two_stages(ApprovalRule(groups=("leads",)))))))
    await world.given(make_user(ADMIN.id), make_group("leads"))
    assert await gates(world, ADMIN) == []
    await Groups(world.context).add_member(ADMIN, "leads", ADMIN.id)
    assert await gates(world, ADMIN) == [GATE]


async def test_a_user_is_asked_once(world: MemoryOperations) -> None:
    line = waiting(Line(two_stages(ApprovalRule(quorum=2))))
    line.approve(GATE, ADMIN.email)
    await world.given(stored(line))
    assert await gates(world, ADMIN) == []
    assert await gates(world, replace(ADMIN, id="sue", email="sue@example.org")) == [GATE]


async def test_a_service_account_has_no_approvals(world: MemoryOperations) -> None:
    await world.given(stored(waiting(Line(two_stages()))))
    assert await gates(world, replace(ADMIN, kind=ActorKind.SERVICE_ACCOUNT)) == []


async def test_a_failed_rollout_waits_for_a_retry(world: MemoryOperations) -> None:
    line = waiting(Line(two_stages()))
    line.approve(GATE)
    line.health("prod", Health.FAILED)
    await world.given(stored(line))
    assert [failed.stage for failed in (await inbox(world, ADMIN)).failed_stages.items] == ["prod"]
    assert (await inbox(world, VIEWER)).total == 0


async def test_a_release_that_does_not_render_waits_for_a_retry(world: MemoryOperations) -> None:
    line = Line(two_stages())
    release = line.observe("c1")
    line.send(StageRenderFailed(StageId("prod"), release, "no such folder"))
    await world.given(stored(line))
    assert [failed.stage for failed in (await inbox(world, ADMIN)).failed_stages.items] == ["prod"]


async def test_the_first_stage_follows_git_and_cannot_be_retried(world: MemoryOperations) -> None:
    line = Line(two_stages())
    line.observe("c1", Health.FAILED)
    await world.given(stored(line))
    assert (await inbox(world, ADMIN)).failed_stages.items == ()


async def test_a_refused_workflow_of_the_first_stage_waits_for_a_retry(
    world: MemoryOperations,
) -> None:
    """A retry runs its steps again, without a new commit."""
    line = Line(two_stages())
    dev, prod = line.pipeline.stages
    steps = (Step("look", HttpRule("https://check.example.org/")),)
    checked = replace(dev, workflow=Gate(GateId("own"), "own", WorkflowRule(steps)))
    line.pipeline = replace(line.pipeline, stages=(checked, prod))
    line.observe("c1")
    (asked,) = (effect for effect in line.effects if isinstance(effect, RunCheck))
    line.send(CheckAnswered(asked.gate, "look", asked.attempt_key, CheckAnswer.FAILED, "slow"))
    await world.given(stored(line))
    failed = (await inbox(world, ADMIN)).failed_stages.items
    assert [(one.stage, one.at) for one in failed] == [("dev", line.now)]


async def test_services_wait_for_those_who_may_write_them(world: MemoryOperations) -> None:
    lost = ObjectRef("", "v1", "ConfigMap", "web", "old")
    failed = make_service("web", DEV, render_error="no such folder")
    await world.given(DEV, failed, make_service("api", DEV))
    await world.given(make_service("db", DEV, phase=Phase.AWAITING, awaiting=(lost,), digest="d"))
    found = await inbox(world, EDITOR)
    assert [service.name for service in found.failed_services.items] == ["web"]
    assert [service.name for service in found.deletions.items] == ["db"]
    assert found.total == 2
    assert (await inbox(world, VIEWER)).total == 0


async def test_a_short_inbox_has_the_newest_items_and_counts_all(world: MemoryOperations) -> None:
    hours = (3, 1, 4, 2, 5)
    await world.given(DEV, *(_failed(f"web-{hour}", hour) for hour in hours))
    found = await inbox(world, EDITOR, 2)
    assert _names(found) == ["web-5", "web-4"]
    assert found.failed_services.total == found.total == 5
    assert found.has_more
    found = await inbox(world, EDITOR, 5)
    assert _names(found) == [f"web-{hour}" for hour in (5, 4, 3, 2, 1)]
    assert not found.has_more and found.total == 5


async def test_each_kind_begins_with_its_newest_items(world: MemoryOperations) -> None:
    names = ("old", "new", "middle")
    await world.given(make_user("vi"))
    for hours, name in zip((0, 9, 5), names, strict=True):
        line = Line(two_stages())
        line.now = START + timedelta(hours=hours)
        record = stored(waiting(line))
        await world.given(replace(record, id=name, name=name))
        asked = AccessRequest(
            name, "vi", "editor", INSTALLATION, 60, "incident", START + timedelta(hours=hours)
        )
        await world.given(asked)
    found = await inbox(world, ADMIN, 2)
    assert [approval.view.row.id for approval in found.approvals.items] == ["new", "middle"]
    assert [view.row.id for view in found.requests.items] == ["new", "middle"]
    assert (found.approvals.total, found.requests.total, found.total) == (3, 3, 6)


@pytest.mark.parametrize("first", [0, 1001])
async def test_a_page_has_a_limit(world: MemoryOperations, first: int) -> None:
    with pytest.raises(Invalid):
        await inbox(world, EDITOR, first)


def _failed(name: str, hour: int) -> Service:
    at = START + timedelta(hours=hour)
    return replace(make_service(name, DEV, render_error="no such folder"), updated_at=at)


def _names(found: InboxItems) -> list[str]:
    return [service.name for service in found.failed_services.items]


async def test_requests_wait_for_those_who_may_decide(world: MemoryOperations) -> None:
    asked = AccessRequest("r", "vi", "editor", INSTALLATION, 60, "incident", START)
    own = replace(asked, id="own", user_id=ADMIN.id)
    decided = replace(asked, id="old", state=AccessRequestState.REFUSED)
    await world.given(make_user("vi"), make_user("root"), asked, own, decided)
    assert [view.row.id for view in (await inbox(world, ADMIN)).requests.items] == ["r"]
    assert (await inbox(world, EDITOR)).requests.items == ()


async def test_a_caller_who_is_not_signed_in_is_refused(world: MemoryOperations) -> None:
    with pytest.raises(Unauthenticated):
        await inbox(world, ANONYMOUS)
