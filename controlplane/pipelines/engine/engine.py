"""The engine: one event in, the next state and the effects out.

`step` is pure and total: the same arguments give the same result. An event that does not apply
changes nothing and produces a `EventIgnored`.
"""

from collections.abc import Callable
from datetime import datetime
from typing import Any

from controlplane.pipelines.engine import (
    decisions,
    events,
    git_merge,
    overrides,
    reports,
    silence,
    starting,
)
from controlplane.pipelines.engine.advance import advance
from controlplane.pipelines.engine.effects import Effect
from controlplane.pipelines.engine.state_draft import StateDraft
from controlplane.pipelines.model.pipeline import Pipeline
from controlplane.pipelines.model.state import PipelineState


def step(
    pipeline: Pipeline, state: PipelineState, event: events.Event, now: datetime
) -> tuple[PipelineState, tuple[Effect, ...]]:
    """Returns the state after the event, and the effects; `now` is timezone-aware. Never raises."""
    draft = StateDraft(pipeline, state, now)
    _TAKE[type(event)](draft, event)
    advance(draft)
    return draft.finish()


def _tick(_: StateDraft, __: events.Tick) -> None:
    """Time has passed; the evaluation that follows every event does all the work."""


_TAKE: dict[type, Callable[[StateDraft, Any], None]] = {
    events.StageObserved: reports.stage_observed,
    events.Started: starting.started,
    events.TriggerFound: starting.found,
    events.FindingWritten: starting.found_written,
    events.FindingFailed: starting.found_failed,
    events.StageRendered: reports.rendered,
    events.StageRenderFailed: reports.render_failed,
    events.ServicesHealth: reports.services_health,
    events.PromotionFailed: reports.promotion_failed,
    events.VerificationFailed: reports.verification_failed,
    events.Changed: git_merge.changed,
    events.ChangeHinted: git_merge.hinted,
    events.BaseMoved: git_merge.base_moved,
    events.Frozen: reports.frozen,
    events.ClustersSilent: silence.clusters_silent,
    events.Budgeted: reports.budgeted,
    events.CheckStarted: reports.check_started,
    events.CheckAnswered: reports.check_answered,
    events.ExternallyAnswered: overrides.externally_answered,
    events.ApproversLeft: overrides.approvers_left,
    events.Skipped: overrides.skipped,
    events.Aborted: overrides.aborted,
    events.Lifted: overrides.lifted,
    events.Approved: decisions.approved,
    events.ReleaseRejected: decisions.rejected,
    events.Superseded: decisions.superseded,
    events.Retried: decisions.retried,
    events.RevisionDenied: decisions.revision_denied,
    events.DenialRemoved: decisions.denial_removed,
    events.Paused: decisions.paused,
    events.Resumed: decisions.resumed,
    events.Tick: _tick,
}
