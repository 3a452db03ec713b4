"""The engine: one event in, the next state and the effects out.

`step` is pure and total: the same arguments give the same result. An event that does not apply
changes nothing and produces an `EventIgnored`.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from controlplane.pipelines.engine import decisions, events, git_merge, reports, silence, starting
from controlplane.pipelines.engine.advance import advance
from controlplane.pipelines.engine.effects import Effect
from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft
from controlplane.pipelines.model.pipeline import Pipeline
from controlplane.pipelines.model.state import PipelineState


def step(
    pipeline: Pipeline, state: PipelineState, event: events.Event, now: datetime
) -> tuple[PipelineState, tuple[Effect, ...]]:
    """Returns the state after the event, and the effects; `now` is timezone-aware. Never raises."""
    draft = StateDraft(pipeline, state, now)
    try:
        HANDLERS[type(event)](draft, event)
    except NotApplicable as problem:
        draft.emit_ignored(problem.message)
    advance(draft)
    return draft.finish()


def _on_tick(_: StateDraft, __: events.Tick) -> None:
    """Time has passed; the evaluation that follows every event does all the work."""


HANDLERS: Mapping[type[events.Event], Callable[[StateDraft, Any], None]] = {
    events.StageObserved: reports.on_stage_observed,
    events.Started: starting.on_started,
    events.TriggerFound: starting.on_trigger_found,
    events.FindingWritten: starting.on_finding_written,
    events.FindingFailed: starting.on_finding_failed,
    events.StageRendered: reports.on_stage_rendered,
    events.StageRenderFailed: reports.on_stage_render_failed,
    events.ServicesHealth: reports.on_services_health,
    events.PromotionFailed: reports.on_promotion_failed,
    events.VerificationFailed: reports.on_verification_failed,
    events.Changed: git_merge.on_changed,
    events.ChangeHinted: git_merge.on_change_hinted,
    events.BaseMoved: git_merge.on_base_moved,
    events.Frozen: reports.on_frozen,
    events.ClustersSilent: silence.on_clusters_silent,
    events.Budgeted: reports.on_budgeted,
    events.CheckStarted: reports.on_check_started,
    events.CheckAnswered: reports.on_check_answered,
    events.ExternallyAnswered: decisions.on_externally_answered,
    events.ApproversLeft: decisions.on_approvers_left,
    events.Skipped: decisions.on_skipped,
    events.Aborted: decisions.on_aborted,
    events.Lifted: decisions.on_lifted,
    events.Approved: decisions.on_approved,
    events.ReleaseRejected: decisions.on_release_rejected,
    events.Retried: decisions.on_retried,
    events.RevisionDenied: decisions.on_revision_denied,
    events.DenialRemoved: decisions.on_denial_removed,
    events.Paused: decisions.on_paused,
    events.Resumed: decisions.on_resumed,
    events.Tick: _on_tick,
}
