"""Evaluation of gates: each one by itself, and all those of an edge for the waiting release."""

from dataclasses import replace
from datetime import timedelta

from controlplane.pipelines.engine.effects import OpenGate, Topic
from controlplane.pipelines.engine.gate_context import GateContext, gate_context
from controlplane.pipelines.engine.gate_steps import advance_steps
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.gates.kinds.approval import approval_of
from controlplane.pipelines.model.gate_rules import (
    CheckRule,
    GateInputs,
    GateVerdict,
    needs_approval,
)
from controlplane.pipelines.model.pipeline import Gate, StageEdge
from controlplane.pipelines.model.state import (
    GateState,
    GateStatus,
    Health,
    ReleaseRefusal,
    Revisions,
    StageState,
    WaitingRelease,
    digests_of,
    fingerprint,
)


def evaluate_edge(draft: StateDraft, edge: StageEdge) -> None:
    """Evaluates every gate of the edge for the waiting release."""
    candidate = draft.candidates.get(edge.id)
    if candidate is None:
        return
    blocker = _blocker(draft, edge, candidate)
    if blocker is not None:
        gates = {gate.id: _blocked_state(candidate, gate, blocker) for gate in edge.gates}
    else:
        gates = {gate.id: _evaluate_edge_gate(draft, edge, gate) for gate in edge.gates}
    closed_names = [g.name for g in edge.gates if gates[g.id].status != GateStatus.OPEN]
    reason = blocker or (f"waiting for {', '.join(closed_names)}" if closed_names else "")
    draft.change_candidate(edge.id, gates=gates, reason=clip(reason))
    failed_gates = [g for g in edge.gates if gates[g.id].status == GateStatus.CLOSED]
    if failed_gates and blocker is None:
        reject_release(draft, edge, failed_gates[0], gates[failed_gates[0].id].reason)
        evaluate_edge(draft, edge)


def evaluate_gate(draft: StateDraft, context: GateContext, source: StageState) -> GateState:
    """Returns the new state of a gate; `source` is the stage that has the release."""
    gate, before = context.gate, context.state
    if before.skipped:
        return replace(before, status=GateStatus.OPEN, reason=before.skipped)
    since = before.since or draft.now
    inputs, checks = GateInputs(source, context.digests, before.approvals, draft.now), before.checks
    if steps := gate.rule.steps_with(gate.patience):
        approval = approval_of(gate.rule)
        approved = approval is not None and approval.evaluate(inputs).status is GateStatus.OPEN
        verdict, checks = advance_steps(draft, context, steps, approved=approved)
    else:
        verdict = gate.rule.evaluate(inputs)
    if verdict.wake is not None:
        draft.wake_at(verdict.wake)
    # Checks have timeouts of their own.
    seconds = 0 if isinstance(gate.rule, CheckRule) else gate.patience.timeout_seconds
    if seconds and verdict.status is GateStatus.RUNNING:
        until = since + timedelta(seconds=seconds)
        if draft.now >= until:
            reason = f"not decided within {seconds} s: {verdict.reason}"
            verdict = GateVerdict(GateStatus.CLOSED, reason)
        else:
            draft.wake_at(until)
    reason = clip(verdict.reason)
    return replace(before, status=verdict.status, reason=reason, since=since, checks=checks)


def reject_release(draft: StateDraft, edge: StageEdge, gate: Gate, gate_reason: str) -> None:
    """Stops the release after a gate refused it, until it is retried or a newer one arrives."""
    candidate = draft.candidates[edge.id]
    reason = clip(f"{gate.name} failed: {gate_reason}")
    refusal = ReleaseRefusal("towline", draft.now, reason, gate.id)
    draft.change_candidate(edge.id, refusal=refusal)
    draft.record(gate.id, candidate.release, reason)
    draft.notify(Topic.REFUSED, gate.id, candidate.release, str(candidate.attempt), reason)


def changes_nothing(state: StageState, render: Revisions) -> bool:
    """Returns whether the stage already runs exactly this content."""
    return digests_of(state.revisions) == digests_of(render)


def _blocker(draft: StateDraft, edge: StageEdge, candidate: WaitingRelease) -> str | None:
    """Returns the reason why no gate may open for a release yet, if any."""
    source, target = draft.stage(edge.source), draft.pipeline.stage[edge.target]
    if candidate.refusal is not None:
        return candidate.refusal.reason
    if not target.services:
        return f"the selector of stage {target.name} matches no service"
    if candidate.render_error:
        return f"cannot be rendered: {candidate.render_error}"
    render = draft.render_of(edge.target, candidate.release)
    if render is None:
        return "waiting for the render"
    if source.health != Health.HEALTHY:
        detail = f": {source.reason}" if source.reason else ""
        return f"{draft.pipeline.stage[edge.source].name} is {source.health.lower()}{detail}"
    moving = draft.releases[candidate.release].revisions
    return draft.denied_reason((*moving.values(), *source.revisions.values(), *render.values()))


def _blocked_state(candidate: WaitingRelease, gate: Gate, blocker: str) -> GateState:
    is_refused = candidate.refusal is not None and candidate.refusal.gate == gate.id
    status = GateStatus.CLOSED if is_refused else GateStatus.PENDING
    before = candidate.gates.get(gate.id, GateState())
    return replace(before, status=status, reason=clip(blocker))


def _evaluate_edge_gate(draft: StateDraft, edge: StageEdge, gate: Gate) -> GateState:
    """Returns the new state of a gate, and announces that it opened or asks users."""
    context = gate_context(draft, gate.id)
    before, release, render = context.state, context.release, context.render
    if changes_nothing(draft.stage(edge.target), render):
        reason = "no changes in the next stage"
        after = replace(before, status=GateStatus.OPEN, reason=reason)
    else:
        after = evaluate_gate(draft, context, draft.stage(edge.source))
    content = fingerprint(render)
    if after.status == GateStatus.OPEN and before.status != GateStatus.OPEN:
        key = f"open/{gate.id}/{release}/{content}"
        draft.emit(OpenGate(key, gate.id, release, after.reason))
        draft.record(gate.id, release, f"gate {gate.name} opened: {after.reason}")
    elif needs_approval(gate.rule, after) and not needs_approval(gate.rule, before):
        text = f"{gate.name} needs approval: {after.reason}"
        draft.notify(Topic.APPROVAL_WANTED, gate.id, release, content, text)
    return after
