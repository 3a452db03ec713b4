"""Evaluation of the gates of an edge for the waiting release."""

from dataclasses import dataclass, replace

from controlplane.pipelines.engine.effects import OpenGate, Topic
from controlplane.pipelines.engine.gate_checks import advance_steps, apply_timeout
from controlplane.pipelines.engine.gate_context import GateContext
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.model.gate_rules import GateInputs, needs_approval
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
    render = draft.render_of(edge.target, candidate.release)
    blocker = _blocker(draft, edge, candidate, render)
    evaluation = _Evaluation(draft, edge, candidate, render or {})
    gates = {gate.id: evaluation.next_state(gate, blocker) for gate in edge.gates}
    closed_names = [g.name for g in edge.gates if gates[g.id].status != GateStatus.OPEN]
    reason = blocker or (f"waiting for {', '.join(closed_names)}" if closed_names else "")
    draft.change_candidate(edge.id, gates=gates, reason=clip(reason))
    failed_gates = [g for g in edge.gates if gates[g.id].status == GateStatus.CLOSED]
    if failed_gates and blocker is None:
        reject_release(draft, edge, failed_gates[0], gates[failed_gates[0].id].reason)
        evaluate_edge(draft, edge)


def reject_release(draft: StateDraft, edge: StageEdge, gate: Gate, gate_reason: str) -> None:
    """Stops the release after a gate refused it, until it is retried or a newer one arrives."""
    candidate = draft.candidates[edge.id]
    reason = clip(f"{gate.name} failed: {gate_reason}")
    refusal = ReleaseRefusal("towline", draft.now, reason, gate.id)
    draft.change_candidate(edge.id, refusal=refusal, reason=reason)
    draft.record(gate.id, candidate.release, reason)
    draft.notify(Topic.REFUSED, gate.id, candidate.release, str(candidate.attempt), reason)


def changes_nothing(state: StageState, render: Revisions) -> bool:
    """Returns whether the stage already runs exactly this content."""
    return digests_of(state.revisions) == digests_of(render)


def _blocker(
    draft: StateDraft, edge: StageEdge, candidate: WaitingRelease, render: Revisions | None
) -> str | None:
    """Returns the reason why no gate may open for a release yet, if any."""
    source, target = draft.stage(edge.source), draft.pipeline.stage[edge.target]
    if candidate.refusal is not None:
        return candidate.refusal.reason
    if not target.services:
        return f"the selector of stage {target.name} matches no service"
    if candidate.render_error:
        return f"cannot be rendered: {candidate.render_error}"
    if render is None:
        return "waiting for the render"
    if source.health != Health.HEALTHY:
        detail = f": {source.reason}" if source.reason else ""
        return f"{draft.pipeline.stage[edge.source].name} is {source.health.lower()}{detail}"
    moving = draft.releases[candidate.release].revisions
    return draft.denied_reason((*moving.values(), *source.revisions.values(), *render.values()))


@dataclass(frozen=True, slots=True)
class _Evaluation:
    """Evaluation of gates of an edge for a release whose render is known."""

    draft: StateDraft
    edge: StageEdge
    candidate: WaitingRelease
    render: Revisions

    def next_state(self, gate: Gate, blocker: str | None) -> GateState:
        """Returns the new state of a gate; `blocker` is the reason why none may open."""
        before, refusal = self.candidate.gates.get(gate.id, GateState()), self.candidate.refusal
        if blocker is not None:
            is_refused = refusal is not None and refusal.gate == gate.id
            status = GateStatus.CLOSED if is_refused else GateStatus.PENDING
            return replace(before, status=status, reason=clip(blocker))
        after = self._evaluate(gate, before)
        self._announce_change(gate, before, after)
        return after

    def _evaluate(self, gate: Gate, before: GateState) -> GateState:
        draft, render, source = self.draft, self.render, self.draft.stage(self.edge.source)
        if before.skipped:
            return replace(before, status=GateStatus.OPEN, reason=before.skipped)
        if changes_nothing(draft.stage(self.edge.target), render):
            reason = "no changes in the next stage"
            return replace(before, status=GateStatus.OPEN, reason=reason)
        started = replace(before, since=before.since or draft.now)
        inputs = GateInputs(source, digests_of(render), before.approvals, draft.now)
        if gate.rule.steps_with(gate.patience):
            release, attempt = self.candidate.release, self.candidate.attempt
            context = GateContext(gate, self.edge.target, release, attempt, started, render)
            verdict, checks = advance_steps(draft, context, inputs.source)
        else:
            verdict, checks = gate.rule.evaluate(inputs), before.checks
        if verdict.wake is not None:
            draft.wake_at(verdict.wake)
        verdict = apply_timeout(draft, gate, started, verdict)
        return replace(started, status=verdict.status, reason=clip(verdict.reason), checks=checks)

    def _announce_change(self, gate: Gate, before: GateState, after: GateState) -> None:
        release, content = self.candidate.release, fingerprint(self.render)
        if after.status == GateStatus.OPEN and before.status != GateStatus.OPEN:
            key = f"open/{gate.id}/{release}/{content}"
            self.draft.emit(OpenGate(key, gate.id, release, after.reason))
            self.draft.record(gate.id, release, f"gate {gate.name} opened: {after.reason}")
        elif needs_approval(gate.rule, after) and not needs_approval(gate.rule, before):
            text = f"{gate.name} needs approval: {after.reason}"
            self.draft.notify(Topic.APPROVAL_WANTED, gate.id, release, content, text)
