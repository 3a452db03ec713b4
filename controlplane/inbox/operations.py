"""The inbox of a user: what the user may decide or repair now."""

from collections.abc import AsyncIterator, Iterator, Sequence
from dataclasses import dataclass

from controlplane.access.operations.access_requests import AccessRequests, AccessRequestView
from controlplane.access.operations.scopes import groups_of
from controlplane.authorization import Actor, ActorKind, ResourceKind, Verb, require_member
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine.decisions import approval_problem
from controlplane.pipelines.engine.events import Approved
from controlplane.pipelines.model.gate_rules import needs_approval
from controlplane.pipelines.model.pipeline import Gate, Stage
from controlplane.pipelines.model.state import (
    GateId,
    GateState,
    GateStatus,
    Health,
    ReleaseId,
    StageId,
)
from controlplane.pipelines.operations.views import (
    PipelineView,
    is_author,
    view_of,
    visible_view,
)
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import ANY, PageQuery, Transaction
from controlplane.services.model.service import Service
from controlplane.services.model.status_codes import ServiceStatus, status_codes_of
from controlplane.services.ports import ServiceStore

MAX_OF_KIND = 50


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A gate at which the actor may approve the waiting release."""

    view: PipelineView
    gate: GateId


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage whose release failed, and which the actor may retry."""

    view: PipelineView
    stage: StageId


@dataclass(frozen=True, slots=True)
class InboxItems:
    """Decisions and failures that wait for one user. Limit: 50 of each kind."""

    approvals: tuple[WaitingApproval, ...]
    failed_stages: tuple[FailedStage, ...]
    requests: tuple[AccessRequestView, ...]
    deletions: tuple[Service, ...]
    failed_services: tuple[Service, ...]

    @property
    def total(self) -> int:
        """Returns the number of items."""
        return sum(map(len, self._kinds))

    @property
    def is_limited(self) -> bool:
        """True if a kind has as many items as its limit."""
        return any(len(kind) == MAX_OF_KIND for kind in self._kinds)

    @property
    def _kinds(self) -> tuple[Sequence[object], ...]:
        services = (self.deletions, self.failed_services)
        return (self.approvals, self.failed_stages, self.requests, *services)


class Inbox:
    """Finds what waits for a user."""

    def __init__(self, context: OperationContext, requests: AccessRequests) -> None:
        self._context = context
        self._requests = requests

    async def of_actor(self, actor: Actor) -> InboxItems:
        """The decisions that the actor may take, and the failures that the actor may repair."""
        require_member(actor)
        requests = await self._requests.undecided(actor)
        async with self._context.store.read() as tx:
            views = [view async for view in _busy_pipelines(tx, actor)]
            approvals = [item for view in views async for item in _approvals(tx, actor, view)]
            deletions = await _services(tx, actor, ServiceStatus.AWAITING_APPROVAL)
            failed = await _services(tx, actor, ServiceStatus.FAILED)
        stages = [item for view in views for item in _failed_stages(view)]
        return InboxItems(
            tuple(approvals[:MAX_OF_KIND]),
            tuple(stages[:MAX_OF_KIND]),
            tuple(requests[:MAX_OF_KIND]),
            deletions,
            failed,
        )


async def _services(tx: Transaction, actor: Actor, status: ServiceStatus) -> tuple[Service, ...]:
    """Services in a state that the actor may write."""
    equals = {"status_code": status_codes_of([status]), "deleted_at": ANY}
    visible = actor.policy.visible(ResourceKind.SERVICE, Verb.WRITE)
    return (
        await tx[ServiceStore].page(PageQuery(MAX_OF_KIND, equals=equals, visible=visible))
    ).items


async def _busy_pipelines(tx: Transaction, actor: Actor) -> AsyncIterator[PipelineView]:
    """Pipelines at which the actor may approve, with a waiting or failed release."""
    if not actor.policy.anywhere(Verb.APPROVE, ResourceKind.PIPELINE):
        return
    for row in await tx[PipelineStore].all():
        if not actor.may(Verb.APPROVE, row.target) or not actor.may(Verb.READ, row.target):
            continue
        state = codec.state_from_json(row.state)
        stages = state.stages.values()
        if state.candidates or any(s.workflow or s.health is Health.FAILED for s in stages):
            yield visible_view(await view_of(tx, row), actor)


async def _approvals(
    tx: Transaction, actor: Actor, view: PipelineView
) -> AsyncIterator[WaitingApproval]:
    if actor.kind is ActorKind.SERVICE_ACCOUNT:
        return
    waiting = [(gate, found) for gate, found in _waiting_gates(view)]
    groups = await groups_of(tx, actor.id, is_person=True) if waiting else []
    names = tuple(group.name for group in groups)
    for gate, (state, release) in waiting:
        author = await is_author(tx, actor, view.state.releases[release])
        event = Approved(gate.id, actor.email, author, {}, "", names)
        if approval_problem(gate.rule, state, event) is None:
            yield WaitingApproval(view, gate.id)


def _waiting_gates(view: PipelineView) -> Iterator[tuple[Gate, tuple[GateState, ReleaseId]]]:
    """Gates and workflows that ask users now, with their state and release."""
    for edge, gate in view.spec.gate.values():
        candidate = view.state.candidates.get(edge.id)
        if candidate is None or gate.id not in candidate.gates:
            continue
        if needs_approval(gate.rule, candidate.gates[gate.id]):
            yield gate, (candidate.gates[gate.id], candidate.release)
    for stage, gate in view.spec.workflow.values():
        running = view.state.stages.get(stage.id)
        if running is None or running.workflow is None or running.release is None:
            continue
        if needs_approval(gate.rule, running.workflow):
            yield gate, (running.workflow, running.release)


def _failed_stages(view: PipelineView) -> Iterator[FailedStage]:
    """Stages that a retry would move: the services of the first stage follow Git instead."""
    for stage in view.spec.stages:
        if _cannot_enter(view, stage) or _failed_after_start(view, stage):
            yield FailedStage(view, stage.id)


def _cannot_enter(view: PipelineView, stage: Stage) -> bool:
    """True if a release does not render for the stage; rejections were decided already."""
    candidates = [view.state.candidates.get(edge.id) for edge in view.spec.edges_into[stage.id]]
    return any(candidate is not None and candidate.render_error for candidate in candidates)


def _failed_after_start(view: PipelineView, stage: Stage) -> bool:
    state = view.state.stages.get(stage.id)
    if state is None or state.release is None or state.health is not Health.FAILED:
        return False
    is_refused = state.workflow is not None and state.workflow.status is GateStatus.CLOSED
    return is_refused or stage.id != view.spec.first.id
