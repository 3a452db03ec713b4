"""Health of a stage: reported by its services and, once they are healthy, by its own workflow."""

from dataclasses import replace

from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.gate_checks import advance_steps, apply_timeout
from controlplane.pipelines.engine.gate_context import GateContext
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.model.gate_rules import needs_approval
from controlplane.pipelines.model.pipeline import Stage, StageId
from controlplane.pipelines.model.state import (
    GateState,
    GateStatus,
    Health,
    StageState,
    fingerprint,
)

PASSED_BEFORE = GateState(GateStatus.OPEN, "passed earlier with this release")


def set_health(draft: StateDraft, stage: StageId, health: Health, reason: str) -> None:
    """Records the health of a stage. The first HEALTHY verifies it; soaking counts continuous
    health.
    """
    state = draft.stage(stage)
    settled = health is Health.HEALTHY
    settled_reason = clip(reason) if settled else ""
    if draft.pipeline.stage[stage].workflow is not None:
        health, reason = _health_with_workflow(state, health, reason)
    healthy = health is Health.HEALTHY
    draft.change_stage(
        stage,
        health=health,
        reason=clip(reason),
        healthy_since=(state.healthy_since or draft.now) if healthy else None,
        verified=state.verified or healthy,
        verified_at=state.verified_at or (draft.now if healthy else None),
        settled=settled,
        settled_reason=settled_reason,
    )
    if healthy and not state.verified:
        _announce_health(draft, stage, Topic.STAGE_VERIFIED, "healthy")
    if health is Health.FAILED is not state.health:
        _announce_health(draft, stage, Topic.STAGE_FAILED, f"failed: {reason}")


def advance_workflow(draft: StateDraft, stage: Stage) -> None:
    """Advances the workflow of a stage whose services are healthy; a pause stops it."""
    state = draft.stage(stage.id)
    if stage.workflow is None or state.release is None or not state.settled:
        return
    before = state.workflow or GateState()
    if before.status in (GateStatus.PENDING, GateStatus.RUNNING) and draft.paused is None:
        after = _run_workflow(draft, stage, state, before)
        draft.change_stage(stage.id, workflow=after)
        _announce_workflow(draft, stage, state, before, after)
    current = draft.stage(stage.id)
    health, _ = _health_with_workflow(current, Health.HEALTHY, "")
    if current.workflow != state.workflow or health is not current.health:
        set_health(draft, stage.id, Health.HEALTHY, current.settled_reason)


def _run_workflow(
    draft: StateDraft, stage: Stage, state: StageState, before: GateState
) -> GateState:
    if stage.workflow is None or state.release is None:
        return before
    started = replace(before, since=before.since or draft.now)
    if started.skipped:
        return replace(started, status=GateStatus.OPEN, reason=started.skipped)
    context = GateContext(
        stage.workflow, stage.id, state.release, state.attempt, started, state.revisions
    )
    verdict, checks = advance_steps(draft, context, state)
    verdict = apply_timeout(draft, stage.workflow, started, verdict)
    return replace(started, status=verdict.status, reason=clip(verdict.reason), checks=checks)


def _health_with_workflow(state: StageState, health: Health, reason: str) -> tuple[Health, str]:
    """Returns the health of a stage and its reason, from its services and its workflow.

    A failed workflow fails the stage until a retry, whatever the services report.
    """
    workflow = state.workflow or GateState()
    if workflow.status is GateStatus.CLOSED:
        return Health.FAILED, f"its workflow failed: {workflow.reason}"
    if health is not Health.HEALTHY or workflow.status is GateStatus.OPEN:
        return health, reason
    return Health.PROGRESSING, f"its workflow: {workflow.reason or 'not started'}"


def _announce_workflow(
    draft: StateDraft, stage: Stage, state: StageState, before: GateState, after: GateState
) -> None:
    if stage.workflow is None or state.release is None:
        return
    rule = stage.workflow.rule
    if after.status is GateStatus.OPEN:
        draft.record(stage.id, state.release, f"workflow passed: {after.reason}")
    elif needs_approval(rule, after) and not needs_approval(rule, before):
        text = f"the workflow of {stage.name} needs approval"
        content = fingerprint(state.revisions)
        draft.notify(Topic.APPROVAL_WANTED, stage.workflow.id, state.release, content, text)


def _announce_health(draft: StateDraft, stage: StageId, topic: Topic, text: str) -> None:
    state = draft.stage(stage)
    if state.release is None:
        return
    draft.record(stage, state.release, text)
    name = draft.pipeline.stage[stage].name
    draft.notify(topic, stage, state.release, str(state.attempt), f"{name} {text}")
