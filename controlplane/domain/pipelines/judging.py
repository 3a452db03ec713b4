"""What the gates of an edge say to the release in waiting."""

from dataclasses import replace
from datetime import timedelta

from controlplane.domain.pipelines.checks import steps_of, walk
from controlplane.domain.pipelines.draft import Draft, clip
from controlplane.domain.pipelines.effects import OpenGate, RunCheck, Topic
from controlplane.domain.pipelines.gates import Situation, Verdict, judge
from controlplane.domain.pipelines.model import Edge, Gate
from controlplane.domain.pipelines.rules import CheckRule, ManualRule, approval_of
from controlplane.domain.pipelines.state import (
    Candidate,
    CheckState,
    GateState,
    GateStatus,
    Health,
    Refusal,
    Revisions,
    StageState,
    digests_of,
    fingerprint,
)


def judge_edge(draft: Draft, edge: Edge) -> None:
    """Give every gate of the edge its say about the release in waiting."""
    candidate = draft.candidates.get(edge.id)
    if candidate is None:
        return
    render = draft.render_of(edge.target, candidate.release)
    blocker = _blocker(draft, edge, candidate, render)
    gates = {
        gate.id: _judge_gate(draft, edge, gate, candidate, blocker, render or {})
        for gate in edge.gates
    }
    closed = [g.name for g in edge.gates if gates[g.id].status != GateStatus.OPEN]
    reason = blocker or (f"waits for {', '.join(closed)}" if closed else "")
    draft.change_candidate(edge.id, gates=gates, reason=clip(reason))
    failed = [g for g in edge.gates if gates[g.id].status == GateStatus.CLOSED]
    if failed and blocker is None:
        refuse(draft, edge, failed[0], gates[failed[0].id].reason)
        judge_edge(draft, edge)


def refuse(draft: Draft, edge: Edge, gate: Gate, why: str) -> None:
    """A gate has said no: the release stops until somebody retries it or a newer one comes."""
    candidate = draft.candidates[edge.id]
    reason = clip(f"{gate.name} failed: {why}")
    refusal = Refusal("towline", draft.now, reason, gate.id)
    draft.change_candidate(edge.id, refusal=refusal, reason=reason)
    draft.record(gate.id, candidate.release, reason)
    draft.notify(Topic.REFUSED, gate.id, candidate.release, str(candidate.attempt), reason)


def changes_nothing(held: StageState, render: Revisions) -> bool:
    """The stage runs exactly this content already."""
    return digests_of(held.revisions) == digests_of(render)


def _blocker(
    draft: Draft, edge: Edge, candidate: Candidate, render: Revisions | None
) -> str | None:
    """Why no gate may open for a release yet, if so."""
    source, target = draft.stage(edge.source), draft.pipeline.stage[edge.target]
    if candidate.refusal is not None:
        return candidate.refusal.reason
    if not target.services:
        return f"the selector of {target.name} matches no service"
    if candidate.render_error:
        return f"cannot be rendered: {candidate.render_error}"
    if render is None:
        return "waits for the render"
    if source.health != Health.HEALTHY:
        detail = f": {source.reason}" if source.reason else ""
        return f"{draft.pipeline.stage[edge.source].name} is {source.health.lower()}{detail}"
    moving = draft.releases[candidate.release].revisions
    return draft.bad_among((*moving.values(), *source.revisions.values(), *render.values()))


def _judge_gate(
    draft: Draft,
    edge: Edge,
    gate: Gate,
    candidate: Candidate,
    blocker: str | None,
    render: Revisions,
) -> GateState:
    before = candidate.gates.get(gate.id, GateState())
    if blocker is not None:
        refused = candidate.refusal is not None and candidate.refusal.gate == gate.id
        status = GateStatus.CLOSED if refused else GateStatus.PENDING
        return replace(before, status=status, reason=clip(blocker))
    after = _decided(draft, edge, gate, candidate, before, render)
    if after.status != before.status:
        _announce(draft, gate, candidate, after, fingerprint(render))
    return after


def _decided(
    draft: Draft,
    edge: Edge,
    gate: Gate,
    candidate: Candidate,
    before: GateState,
    render: Revisions,
) -> GateState:
    if before.skipped:
        return replace(before, status=GateStatus.OPEN, reason=before.skipped)
    if changes_nothing(draft.stage(edge.target), render):
        told = "changes nothing in the stage behind"
        return replace(before, status=GateStatus.OPEN, reason=told)
    begun = replace(before, since=before.since or draft.now)
    situation = Situation(draft.stage(edge.source), digests_of(render), before.approvals, draft.now)
    if steps_of(gate.rule, gate.patience):
        verdict, checks = _walked(draft, edge, gate, candidate, situation, begun)
    else:
        verdict, checks = judge(gate.rule, situation), before.checks
    if verdict.wake is not None:
        draft.wake(verdict.wake)
    verdict = _in_time(draft, gate, begun, verdict)
    return replace(begun, status=verdict.status, reason=clip(verdict.reason), checks=checks)


def _walked(
    draft: Draft,
    edge: Edge,
    gate: Gate,
    candidate: Candidate,
    situation: Situation,
    gate_state: GateState,
) -> tuple[Verdict, dict[str, CheckState]]:
    people = approval_of(gate.rule)
    told = judge(people, situation) if people else None
    render = draft.render_of(edge.target, candidate.release) or {}
    base = f"check/{gate.id}/{candidate.release}/{candidate.attempt}/{fingerprint(render)}"
    approved = told is not None and told.status is GateStatus.OPEN
    steps = steps_of(gate.rule, gate.patience)
    now = walk(steps, gate_state.checks, base, draft.now, approved=approved)
    commits = draft.releases[candidate.release].commits
    for one in now.questions:
        if isinstance(one.step.rule, CheckRule):
            draft.emit(
                RunCheck(
                    key=one.key,
                    attempt_key=one.attempt_key,
                    gate=gate.id,
                    step=one.step.name,
                    stage=edge.target,
                    release=candidate.release,
                    rule=one.step.rule,
                    commits=commits,
                    digests=situation.digests,
                    inputs=one.inputs,
                )
            )
    for wake in now.wakes:
        draft.wake(wake)
    checks = dict(now.states)
    if now.failed is not None:
        return Verdict(GateStatus.CLOSED, now.failed), checks
    if now.passed:
        return Verdict(GateStatus.OPEN, "all of it has passed"), checks
    return Verdict(GateStatus.RUNNING, now.reason), checks


def _in_time(draft: Draft, gate: Gate, state: GateState, verdict: Verdict) -> Verdict:
    """The verdict, unless the gate as a whole has taken too long; checks have their own time."""
    seconds = gate.patience.timeout_seconds
    is_check = isinstance(gate.rule, CheckRule)
    if not seconds or is_check or verdict.status is not GateStatus.RUNNING:
        return verdict
    until = (state.since or draft.now) + timedelta(seconds=seconds)
    if draft.now >= until:
        return Verdict(GateStatus.CLOSED, f"not decided within {seconds} s: {verdict.reason}")
    draft.wake(until)
    return verdict


def _announce(
    draft: Draft, gate: Gate, candidate: Candidate, after: GateState, content: str
) -> None:
    release = candidate.release
    if after.status == GateStatus.OPEN:
        key = f"open/{gate.id}/{release}/{content}"
        draft.emit(OpenGate(key, gate.id, release, after.reason))
        draft.record(gate.id, release, f"gate {gate.name} opened: {after.reason}")
    elif after.status == GateStatus.RUNNING and (
        approval_of(gate.rule) or isinstance(gate.rule, ManualRule)
    ):
        text = f"{gate.name} waits for approval: {after.reason}"
        draft.notify(Topic.APPROVAL_WANTED, gate.id, release, content, text)
