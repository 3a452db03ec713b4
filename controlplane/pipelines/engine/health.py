"""Health of a stage: reported by its services and, once they are healthy, by its own workflow."""

from dataclasses import replace

from controlplane.pipelines.engine.draft import Draft, clip
from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.gate_checks import advance_steps, apply_timeout
from controlplane.pipelines.engine.gate_context import GateContext
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


def set_health(draft: Draft, stage: StageId, health: Health, reason: str) -> None:
    """Records the health of a stage. The first HEALTHY verifies it; soaking counts continuous
    health.
    """
    held = draft.stage(stage)
    settled = health is Health.HEALTHY
    if draft.pipeline.stage[stage].workflow is not None:
        health, reason = _with_workflow(held, health, reason)
    healthy = health is Health.HEALTHY
    draft.change_stage(
        stage,
        health=health,
        reason=clip(reason),
        healthy_since=(held.healthy_since or draft.now) if healthy else None,
        verified=held.verified or healthy,
        verified_at=held.verified_at or (draft.now if healthy else None),
        settled=settled,
    )
    if healthy and not held.verified:
        _announce(draft, stage, Topic.STAGE_VERIFIED, "healthy")
    if health is Health.FAILED is not held.health:
        _announce(draft, stage, Topic.STAGE_FAILED, f"failed: {reason}")


def advance_workflow(draft: Draft, stage: Stage) -> None:
    """Advances the workflow of a stage whose services are healthy; a pause stops it."""
    held = draft.stage(stage.id)
    if stage.workflow is None or held.release is None or not held.settled:
        return
    before = held.workflow or GateState()
    if before.status in (GateStatus.PENDING, GateStatus.RUNNING) and draft.paused is None:
        after = _run_workflow(draft, stage, held, before)
        draft.change_stage(stage.id, workflow=after)
        _tell(draft, stage, held, before, after)
    now = draft.stage(stage.id)
    says, _ = _with_workflow(now, Health.HEALTHY, "")
    if now.workflow != held.workflow or says is not now.health:
        set_health(draft, stage.id, Health.HEALTHY, "")


def _run_workflow(draft: Draft, stage: Stage, held: StageState, before: GateState) -> GateState:
    if stage.workflow is None or held.release is None:
        return before
    begun = replace(before, since=before.since or draft.now)
    if begun.skipped:
        return replace(begun, status=GateStatus.OPEN, reason=begun.skipped)
    context = GateContext(
        stage.workflow, stage.id, held.release, held.attempt, begun, held.revisions
    )
    verdict, checks = advance_steps(draft, context, held)
    verdict = apply_timeout(draft, stage.workflow, begun, verdict)
    return replace(begun, status=verdict.status, reason=clip(verdict.reason), checks=checks)


def _with_workflow(held: StageState, health: Health, reason: str) -> tuple[Health, str]:
    """Keeps a failed workflow failed until a retry, whatever the services report."""
    workflow = held.workflow or GateState()
    if workflow.status is GateStatus.CLOSED:
        return Health.FAILED, f"its workflow failed: {workflow.reason}"
    if health is not Health.HEALTHY or workflow.status is GateStatus.OPEN:
        return health, reason
    return Health.PROGRESSING, f"its workflow: {workflow.reason or 'not started'}"


def _tell(
    draft: Draft, stage: Stage, held: StageState, before: GateState, after: GateState
) -> None:
    if stage.workflow is None or held.release is None:
        return
    rule = stage.workflow.rule
    if after.status is GateStatus.OPEN:
        draft.record(stage.id, held.release, f"workflow passed: {after.reason}")
    elif needs_approval(rule, after) and not needs_approval(rule, before):
        text = f"the workflow of {stage.name} needs approval"
        content = fingerprint(held.revisions)
        draft.notify(Topic.APPROVAL_WANTED, stage.workflow.id, held.release, content, text)


def _announce(draft: Draft, stage: StageId, topic: Topic, text: str) -> None:
    held = draft.stage(stage)
    if held.release is None:
        return
    draft.record(stage, held.release, text)
    name = draft.pipeline.stage[stage].name
    draft.notify(topic, stage, held.release, str(held.attempt), f"{name} {text}")
