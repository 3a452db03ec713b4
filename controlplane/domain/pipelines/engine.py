"""The engine: one event in, the next state and the effects out.

`step` is pure and total: the same arguments give the same result. An event that does not apply
changes nothing and produces a `Noted`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from controlplane.domain.pipelines import (
    decisions,
    events,
    landing,
    overrides,
    reports,
    starting,
)
from controlplane.domain.pipelines.advance import advance
from controlplane.domain.pipelines.draft import Draft
from controlplane.domain.pipelines.effects import Effect
from controlplane.domain.pipelines.model import Pipeline
from controlplane.domain.pipelines.state import State


def step(
    pipeline: Pipeline, state: State, event: events.Event, now: datetime
) -> tuple[State, tuple[Effect, ...]]:
    """Returns the state after the event, and the effects; `now` is timezone-aware. Never raises."""
    draft = Draft(pipeline, state, now)
    _TAKE[type(event)](draft, event)
    advance(draft)
    return draft.finish()


def _tick(_: Draft, __: events.Tick) -> None:
    """Time has passed; the evaluation that follows every event does all the work."""


_TAKE: dict[type, Callable[[Draft, Any], None]] = {
    events.StageObserved: reports.stage_observed,
    events.Started: starting.started,
    events.Found: starting.found,
    events.FoundWritten: starting.found_written,
    events.FoundFailed: starting.found_failed,
    events.Rendered: reports.rendered,
    events.RenderFailed: reports.render_failed,
    events.StageHealth: reports.stage_health,
    events.ServicesHealth: reports.services_health,
    events.PromotionFailed: reports.promotion_failed,
    events.VerificationFailed: reports.verification_failed,
    events.Changed: landing.changed,
    events.ChangeHinted: landing.hinted,
    events.BaseMoved: landing.base_moved,
    events.Frozen: reports.frozen,
    events.Budgeted: reports.budgeted,
    events.CheckStarted: reports.check_started,
    events.CheckAnswered: reports.check_answered,
    events.ExternallyAnswered: overrides.externally_answered,
    events.ApproversLeft: overrides.approvers_left,
    events.Skipped: overrides.skipped,
    events.Aborted: overrides.aborted,
    events.Lifted: overrides.lifted,
    events.Approved: decisions.approved,
    events.Rejected: decisions.rejected,
    events.Superseded: decisions.superseded,
    events.Retried: decisions.retried,
    events.KnownBad: decisions.known_bad,
    events.Cleared: decisions.cleared,
    events.Paused: decisions.paused,
    events.Resumed: decisions.resumed,
    events.Tick: _tick,
}
