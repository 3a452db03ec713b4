"""The inbox of a user: what the user may decide or repair now."""

from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Generic, TypeVar

from controlplane.access.operations.access_requests import AccessRequests, AccessRequestView
from controlplane.access.operations.scopes import groups_of
from controlplane.authorization import Actor, ActorKind, ResourceKind, Verb, require_member
from controlplane.pipelines.engine import codec
from controlplane.pipelines.engine.decisions import approval_problem
from controlplane.pipelines.engine.events import Approved
from controlplane.pipelines.model.gate_rules import needs_approval
from controlplane.pipelines.model.pipeline import Stage
from controlplane.pipelines.model.state import GateId, GateStatus, Health, ReleaseId, StageId
from controlplane.pipelines.operations.views import (
    PipelineView,
    gates_in_progress,
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

DEFAULT_OF_KIND = 50


@dataclass(frozen=True, slots=True)
class WaitingApproval:
    """A gate at which the actor may approve the waiting release."""

    view: PipelineView
    gate: GateId
    at: datetime
    """Time of the release."""


@dataclass(frozen=True, slots=True)
class FailedStage:
    """A stage whose release failed, and which the actor may retry."""

    view: PipelineView
    stage: StageId
    at: datetime
    """Time of the release."""


Item = TypeVar("Item")
Shown = TypeVar("Shown", covariant=True)


@dataclass(frozen=True, slots=True)
class KindOfItems(Generic[Shown]):
    """The newest items of a kind, and the number of all."""

    items: tuple[Shown, ...]
    total: int


@dataclass(frozen=True, slots=True)
class InboxItems:
    """Decisions and failures that wait for one user. Each kind has its newest items first."""

    approvals: KindOfItems[WaitingApproval]
    failed_stages: KindOfItems[FailedStage]
    requests: KindOfItems[AccessRequestView]
    deletions: KindOfItems[Service]
    failed_services: KindOfItems[Service]

    @property
    def total(self) -> int:
        """Returns the number of all items, also of those that are left out."""
        return sum(kind.total for kind in self._all_kinds)

    @property
    def has_more(self) -> bool:
        """True if a kind has more items than were asked for."""
        return any(len(kind.items) < kind.total for kind in self._all_kinds)

    @property
    def _all_kinds(self) -> tuple[KindOfItems[object], ...]:
        services = (self.deletions, self.failed_services)
        return (self.approvals, self.failed_stages, self.requests, *services)


class Inbox:
    """Finds what waits for a user."""

    def __init__(self, context: OperationContext, requests: AccessRequests) -> None:
        self._context = context
        self._requests = requests

    async def of_actor(self, actor: Actor, first: int = DEFAULT_OF_KIND) -> InboxItems:
        """The decisions that the actor may take, and the failures that the actor may repair.

        `first`: maximum number of items of each kind. Invalid: it is less than 1 or above 1,000.
        """
        require_member(actor)
        query = PageQuery(first, newest=True, counting=True, order="updated_at")
        requests = await self._requests.undecided(actor)
        async with self._context.store.read() as tx:
            views = [view async for view in _busy_pipelines(tx, actor)]
            approvals = [
                item for view in views async for item in _waiting_approvals(tx, actor, view)
            ]
            deletions = await _services_with_status(
                tx, actor, query, ServiceStatus.AWAITING_APPROVAL
            )
            failed = await _services_with_status(tx, actor, query, ServiceStatus.FAILED)
        stages = [item for view in views for item in _failed_stages(view)]
        return InboxItems(
            _newest_items(approvals, first, lambda item: item.at),
            _newest_items(stages, first, lambda item: item.at),
            _newest_items(requests, first, lambda view: view.row.inserted_at),
            deletions,
            failed,
        )


def _newest_items(
    items: Sequence[Item], first: int, at: Callable[[Item], datetime]
) -> KindOfItems[Item]:
    ordered = sorted(items, key=at, reverse=True)
    return KindOfItems(tuple(ordered[:first]), len(ordered))


async def _services_with_status(
    tx: Transaction, actor: Actor, query: PageQuery, status: ServiceStatus
) -> KindOfItems[Service]:
    """Services in a state that the actor may write."""
    equals = {"status_code": status_codes_of([status]), "deleted_at": ANY}
    visible = actor.policy.visible(ResourceKind.SERVICE, Verb.WRITE)
    page = await tx[ServiceStore].page(replace(query, equals=equals, visible=visible))
    return KindOfItems(page.items, page.count or 0)


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


async def _waiting_approvals(
    tx: Transaction, actor: Actor, view: PipelineView
) -> AsyncIterator[WaitingApproval]:
    if actor.kind is ActorKind.SERVICE_ACCOUNT:
        return
    waiting = [
        (gate, state, release)
        for gate, state, release in gates_in_progress(view.spec, view.state)
        if needs_approval(gate.rule, state)
    ]
    groups = await groups_of(tx, actor.id, is_person=True) if waiting else []
    names = tuple(group.name for group in groups)
    for gate, state, release in waiting:
        waiting_release = view.state.releases[release]
        author = await is_author(tx, actor, waiting_release)
        event = Approved(gate.id, actor.email, author, {}, "", names)
        if approval_problem(gate.rule, state, event) is None:
            yield WaitingApproval(view, gate.id, waiting_release.seen_at)


def _failed_stages(view: PipelineView) -> Iterator[FailedStage]:
    """Stages that a retry would move: the services of the first stage follow Git instead."""
    for stage in view.spec.stages:
        release = _unrendered_release(view, stage) or _failed_release(view, stage)
        if release is not None:
            yield FailedStage(view, stage.id, view.state.releases[release].seen_at)


def _unrendered_release(view: PipelineView, stage: Stage) -> ReleaseId | None:
    """The release that does not render for the stage; rejections were decided already."""
    candidates = [view.state.candidates.get(edge.id) for edge in view.spec.edges_into[stage.id]]
    return next(
        (candidate.release for candidate in candidates if candidate and candidate.render_error),
        None,
    )


def _failed_release(view: PipelineView, stage: Stage) -> ReleaseId | None:
    """The release that failed after its start in the stage."""
    state = view.state.stages.get(stage.id)
    if state is None or state.release is None or state.health is not Health.FAILED:
        return None
    is_refused = state.workflow is not None and state.workflow.status is GateStatus.CLOSED
    return state.release if is_refused or stage.id != view.spec.first.id else None
