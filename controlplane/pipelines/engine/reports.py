"""Reports from clusters: revisions and health of stages, results of renders."""

from collections.abc import Mapping
from dataclasses import replace

from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.gate_context import GateContext, gate_context, save_gate_state
from controlplane.pipelines.engine.gate_steps import record_answer
from controlplane.pipelines.engine.health import set_health
from controlplane.pipelines.engine.rollout_engine import roll_back, rollout_state
from controlplane.pipelines.engine.silence import leave_out_silent
from controlplane.pipelines.engine.starting import observe_revisions
from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft, clip
from controlplane.pipelines.model.gate_rules import Step
from controlplane.pipelines.model.pipeline import Stage, StageId
from controlplane.pipelines.model.rollout import Progress, current_wave
from controlplane.pipelines.model.state import (
    CheckState,
    GateState,
    GateStatus,
    Health,
    ReleaseId,
    StageSilence,
    digests_of,
    fingerprint,
)
from core.identity import ServiceId

MAX_OUTPUTS = 64


def on_stage_observed(draft: StateDraft, event: ev.StageObserved) -> None:
    """Records the first stage's revisions; new revisions are the next release."""
    first = draft.pipeline.first
    if event.stage != first.id:
        raise NotApplicable("only the first stage follows git")
    if not draft.covers(event.stage, event.revisions):
        raise NotApplicable("the report is not about exactly the services of the stage")
    if not observe_revisions(draft, event):
        return
    silence = leave_out_silent(draft, first, event.unsettled, event.unsettled)
    if event.unsettled and silence.left_out.keys() >= set(event.unsettled):
        set_health(draft, first.id, Health.HEALTHY, silence.reason)
    else:
        set_health(draft, first.id, event.health, event.reason, silence.reason)


def on_services_health(draft: StateDraft, event: ev.ServicesHealth) -> None:
    """Records service health, which determines rollout progress and the stage's health."""
    before = draft.occupied_stage(event.stage, event.release)
    stage = draft.pipeline.stage[event.stage]
    silence = _advance_progress(draft, stage, event.healths)
    if not before.stopped:
        _derive_health(draft, stage, event, silence)


def on_promotion_failed(draft: StateDraft, event: ev.PromotionFailed) -> None:
    """Marks the stage as failed with the release until a retry."""
    draft.promoting_stage(event.stage, event.release)
    set_health(draft, event.stage, Health.FAILED, event.reason)
    draft.change_stage(event.stage, stopped=clip(event.reason))


def on_verification_failed(draft: StateDraft, event: ev.VerificationFailed) -> None:
    """Applies one cluster's failed verification to the whole stage."""
    state = draft.occupied_stage(event.stage, event.release)
    if event.service not in state.revisions:
        raise NotApplicable(f"the stage does not hold release {event.release}")
    if event.stage == draft.pipeline.first.id or state.good_release == state.release:
        draft.deny_revision(state.revisions[event.service].digest, f"towline: {event.reason}")
        set_health(draft, event.stage, Health.FAILED, event.reason)
    else:
        roll_back(draft, draft.pipeline.stage[event.stage], event.reason)


def on_frozen(draft: StateDraft, event: ev.Frozen) -> None:
    """Replaces the set of frozen services."""
    draft.frozen = {service: clip(reason) for service, reason in event.services.items()}


def on_budgeted(draft: StateDraft, event: ev.Budgeted) -> None:
    """Replaces the remaining budgets, before any release uses them."""
    draft.room = event.room


def on_check_started(draft: StateDraft, event: ev.CheckStarted) -> None:
    """Records the job, so that users find its log."""
    context, step, check = _find_check(draft, event)
    _save_check(draft, context, step, replace(check, job_id=event.job_id))


def on_check_answered(draft: StateDraft, event: ev.CheckAnswered) -> None:
    """Records an answer to the newest attempt of a running step; all other answers are ignored."""
    context, step, check = _find_check(draft, event)
    after = record_answer(step, check, event.answer, clip(event.reason), draft.now)
    outputs = {clip(k): clip(v) for k, v in list(event.outputs.items())[:MAX_OUTPUTS]}
    _save_check(draft, context, step, replace(after, outputs=outputs))


def on_stage_rendered(draft: StateDraft, event: ev.StageRendered) -> None:
    """Records a render; another content than before voids approvals."""
    _check_render(draft, event)
    renders = draft.stage(event.stage).rendered
    before = renders.get(event.release)
    if before is not None and digests_of(before) != digests_of(event.revisions):
        _void_approvals(draft, event.stage, event.release, fingerprint(event.revisions))
    for edge, _ in draft.waiting_edges(event.stage, event.release):
        draft.change_candidate(edge.id, render_error="")
    draft.change_stage(event.stage, rendered={**renders, event.release: event.revisions})


def on_stage_render_failed(draft: StateDraft, event: ev.StageRenderFailed) -> None:
    """Records a failed render: the release waits, and earlier approvals are void."""
    waiting_edges = draft.waiting_edges(event.stage, event.release)
    if not waiting_edges:
        raise NotApplicable(f"release {event.release} is not waiting before the stage")
    for edge, _ in waiting_edges:
        draft.change_candidate(edge.id, render_error=clip(event.reason) or "unknown reason")
    _void_approvals(draft, event.stage, event.release, "failed")
    renders = draft.stage(event.stage).rendered
    other_renders = {key: value for key, value in renders.items() if key != event.release}
    draft.change_stage(event.stage, rendered=other_renders)


def _find_check(
    draft: StateDraft, event: ev.CheckStarted | ev.CheckAnswered
) -> tuple[GateContext, Step, CheckState]:
    """Returns the running check that the event is about. Raises NotApplicable if there is none."""
    try:
        # An answer arrives once, so it must count even while a service is not healthy.
        context = gate_context(draft, event.gate, unsettled=True)
    except NotApplicable:
        raise NotApplicable("no check is waiting for this answer") from None
    check = context.state.checks.get(event.step)
    steps = context.gate.rule.steps_with(context.gate.patience)
    step = next((candidate for candidate in steps if candidate.name == event.step), None)
    if check is None or step is None or check.key != event.key:
        raise NotApplicable("the answer belongs to an outdated check")
    if check.status is not GateStatus.RUNNING or check.pausing:
        raise NotApplicable("this attempt is already decided")
    return context, step, check


def _save_check(draft: StateDraft, context: GateContext, step: Step, check: CheckState) -> None:
    save_gate_state(draft, context, checks={**context.state.checks, step.name: check})


def _advance_progress(
    draft: StateDraft, stage: Stage, healths: Mapping[ServiceId, Health]
) -> StageSilence:
    """Records the progress of the services that have the release, and the end of a wave."""
    before = draft.stage(stage.id)
    progress = {
        service: _next_progress(state, healths.get(service))
        for service, state in before.progress.items()
    }
    unsettled = [s for s in progress if healths.get(s) is Health.PROGRESSING]
    not_caught_up = [s for s, state in progress.items() if state is Progress.LEFT_OUT]
    # A wave that ends with these reports no longer has a deadline.
    _record_wave_end(draft, stage, progress)
    silence = leave_out_silent(draft, stage, not_caught_up, unsettled)
    progress |= dict.fromkeys(silence.left_out, Progress.LEFT_OUT)
    _record_wave_end(draft, stage, progress)
    draft.change_stage(stage.id, progress=progress)
    return silence


def _record_wave_end(
    draft: StateDraft, stage: Stage, progress: Mapping[ServiceId, Progress]
) -> None:
    state = draft.stage(stage.id)
    waves = rollout_state(draft, stage, state).waves
    if current_wave(waves, progress)[0] > current_wave(waves, state.progress)[0]:
        draft.change_stage(stage.id, wave_done_at=draft.now, wave_begun_at=None)


def _derive_health(
    draft: StateDraft, stage: Stage, event: ev.ServicesHealth, silence: StageSilence
) -> None:
    """Derives a stage's health from its services and its rollout limits."""
    state, max_failed = draft.stage(stage.id), stage.rollout.max_failed
    progress, reasons = state.progress, event.reasons
    failed_services = [service for service, done in progress.items() if done is Progress.FAILED]
    if len(failed_services) > max_failed:
        reason = reasons.get(failed_services[0], "")
        if len(failed_services) > 1:
            reason = f"{reason} ({len(failed_services)} failed, limit {max_failed})"
        return set_health(draft, stage.id, Health.FAILED, reason)
    unfinished = [
        service
        for wave in rollout_state(draft, stage, state).waves
        for service in wave
        if progress.get(service) not in (Progress.FAILED, Progress.LEFT_OUT)
        and event.healths.get(service) is not Health.HEALTHY
    ]
    if not unfinished:
        failed = f"{len(failed_services)} services failed, within the limit"
        reason = failed if failed_services else ""
        return set_health(draft, stage.id, Health.HEALTHY, reason, silence.reason)
    reported = (s for s in unfinished if s in reasons and s not in silence.waits_for)
    reason = next((reasons[service] for service in reported), "")
    reason = reason or ("" if silence.waits_for else f"{len(unfinished)} services to go")
    set_health(draft, stage.id, Health.PROGRESSING, reason, silence.reason)


def _next_progress(before: Progress, health: Health | None) -> Progress:
    match health:
        case Health.HEALTHY:
            return Progress.HEALTHY
        case Health.FAILED:
            return Progress.FAILED
        case Health.PROGRESSING if before is Progress.FAILED:
            return Progress.GIVEN
    return before


def _check_render(draft: StateDraft, event: ev.StageRendered) -> None:
    if not draft.waiting_edges(event.stage, event.release):
        raise NotApplicable(f"release {event.release} is not waiting before the stage")
    if not draft.covers(event.stage, event.revisions):
        raise NotApplicable("the render does not cover exactly the services of the stage")
    if draft.pipeline.stage[event.stage].git is not None:
        return  # The render used a commit that the release is going to become.
    release_commits = set(draft.releases[event.release].commits.values())
    if foreign := {revision.commit for revision in event.revisions.values()} - release_commits:
        raise NotApplicable(f"commit {min(foreign)} is not part of the release")


def _void_approvals(draft: StateDraft, stage: StageId, release: ReleaseId, nonce: str) -> None:
    for edge, candidate in draft.waiting_edges(stage, release):
        approved_gates = [gate for gate, state in candidate.gates.items() if state.approvals]
        gates = {key: GateState() for key in candidate.gates}
        draft.change_candidate(edge.id, gates=gates)
        for gate in approved_gates:
            text = "the release's content has changed: earlier approvals are void"
            draft.record(gate, release, text)
            draft.notify(Topic.APPROVAL_VOIDED, gate, release, nonce, text)
