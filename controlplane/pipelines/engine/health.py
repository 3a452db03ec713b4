"""Health of a stage: reported by its services and, once they are healthy, by its own workflow."""

from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.gate_context import GateContext
from controlplane.pipelines.engine.gate_evaluation import evaluate_gate
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


def set_health(draft: StateDraft, stage: StageId, health: Health, *reasons: str) -> None:
    """Records the health of a stage; the first HEALTHY verifies its release."""
    state, target = draft.stage(stage), draft.pipeline.stage[stage]
    reason = "; ".join(reason for reason in reasons if reason)
    settled = health is Health.HEALTHY
    settled_reason = clip(reason)
    if target.workflow is not None:
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
        draft.announce(Topic.STAGE_VERIFIED, target, str(state.attempt), "healthy")
    if health is Health.FAILED is not state.health:
        draft.announce(Topic.STAGE_FAILED, target, str(state.attempt), f"failed: {reason}")


def advance_workflow(draft: StateDraft, stage: Stage) -> None:
    """Advances the workflow of a stage whose services are healthy; a pause stops it."""
    state = draft.stage(stage.id)
    if stage.workflow is None or state.release is None or not state.settled:
        return
    before = state.workflow or GateState()
    if before.status in (GateStatus.PENDING, GateStatus.RUNNING) and draft.paused is None:
        context = GateContext(
            stage.workflow, stage.id, state.release, state.attempt, before, state.revisions
        )
        after = evaluate_gate(draft, context, state)
        draft.change_stage(stage.id, workflow=after)
        _announce_workflow(draft, stage, context, after)
    current = draft.stage(stage.id)
    health, _ = _health_with_workflow(current, Health.HEALTHY, "")
    if current.workflow != state.workflow or health is not current.health:
        set_health(draft, stage.id, Health.HEALTHY, current.settled_reason)


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
    draft: StateDraft, stage: Stage, context: GateContext, after: GateState
) -> None:
    gate, release = context.gate, context.release
    if after.status is GateStatus.OPEN:
        draft.record(stage.id, release, f"workflow passed: {after.reason}")
    elif needs_approval(gate.rule, after) and not needs_approval(gate.rule, context.state):
        text = f"the workflow of {stage.name} needs approval"
        content = fingerprint(context.render)
        draft.notify(Topic.APPROVAL_WANTED, gate.id, release, content, text)
