"""What follows by itself from a state: releases queue, gates are judged, stages take them in."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from controlplane.domain.pipelines.draft import Draft, clip
from controlplane.domain.pipelines.effects import OpenGate, Promote, RenderStage, Topic
from controlplane.domain.pipelines.gates import Situation, Verdict, judge
from controlplane.domain.pipelines.model import Edge, Gate, GateKind, Stage
from controlplane.domain.pipelines.state import (
    Candidate,
    GateState,
    GateStatus,
    Health,
    ReleaseId,
    Revisions,
    StageState,
    digests_of,
    fingerprint,
)


def advance(draft: Draft) -> None:
    """Move every release as far as it may go now, one stage after the other."""
    for stage in draft.pipeline.order:
        edges = draft.pipeline.edges_into[stage.id]
        for edge in edges:
            _queue(draft, edge)
            _judge_edge(draft, edge)
        if edges:
            _enter(draft, stage, edges)


def _queue(draft: Draft, edge: Edge) -> None:
    """What waits before an edge is what its source holds, unless its target has had it."""
    release = draft.stage(edge.source).release
    waiting = draft.candidates.get(edge.id)
    if release is None or not _is_newer(draft, release, draft.stage(edge.target).release):
        draft.candidates.pop(edge.id, None)
        return
    if waiting is None or waiting.release != release:
        draft.candidates[edge.id] = Candidate(release)
        if waiting is not None:
            draft.record(edge.id, waiting.release, f"superseded by {release}")
    _ask_render(draft, edge)


def _is_newer(draft: Draft, release: ReleaseId, than: ReleaseId | None) -> bool:
    return than is None or draft.releases[release].number > draft.releases[than].number


def _ask_render(draft: Draft, edge: Edge) -> None:
    candidate = draft.candidates[edge.id]
    release, stage = candidate.release, edge.target
    if candidate.render_error or draft.render_of(stage, release) is not None:
        return
    services = "\n".join(sorted(draft.pipeline.stage[stage].services))
    scope = hashlib.sha256(services.encode()).hexdigest()[:8]
    key = f"render/{stage}/{release}/{candidate.attempt}/{scope}"
    if key != candidate.asked:
        draft.change_candidate(edge.id, asked=key)
        draft.emit(RenderStage(key, stage, release, draft.releases[release].commits))


def _judge_edge(draft: Draft, edge: Edge) -> None:
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


def _blocker(
    draft: Draft, edge: Edge, candidate: Candidate, render: Revisions | None
) -> str | None:
    """Why no gate may open for a release yet, if so."""
    source = draft.stage(edge.source)
    if candidate.refusal is not None:
        return candidate.refusal.reason
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
    verdict = _verdict(draft, edge, gate, before, render)
    if verdict.wake is not None:
        draft.wake(verdict.wake)
    if verdict.status != before.status:
        _announce(draft, gate, candidate.release, verdict, fingerprint(render))
    return replace(before, status=verdict.status, reason=clip(verdict.reason))


def _verdict(draft: Draft, edge: Edge, gate: Gate, before: GateState, render: Revisions) -> Verdict:
    if _changes_nothing(draft.stage(edge.target), render):
        return Verdict(GateStatus.OPEN, "changes nothing in the stage behind")
    source, digests = draft.stage(edge.source), digests_of(render)
    return judge(gate.rule, Situation(source, digests, before.approvals, draft.now))


def _announce(draft: Draft, gate: Gate, release: ReleaseId, verdict: Verdict, content: str) -> None:
    if verdict.status == GateStatus.OPEN:
        key = f"open/{gate.id}/{release}/{content}"
        draft.emit(OpenGate(key, gate.id, release, clip(verdict.reason)))
        draft.record(gate.id, release, f"gate {gate.name} opened: {verdict.reason}")
    elif gate.kind == GateKind.APPROVAL:
        text = f"{gate.name} waits for approval: {verdict.reason}"
        draft.notify(Topic.APPROVAL_WANTED, gate.id, release, content, text)


def _enter(draft: Draft, stage: Stage, edges: tuple[Edge, ...]) -> None:
    """Take in the release for which all edges into the stage are clear, if there is one."""
    waiting = [draft.candidates.get(edge.id) for edge in edges]
    first = waiting[0]
    if first is None or any(one is None or one.release != first.release for one in waiting):
        return _hold(draft, edges, "has not arrived on every way into the stage")
    if any(one.reason for one in waiting if one is not None):
        return _hold(draft, edges, "waits on another way into the stage")
    if draft.paused is not None:
        return _hold(draft, edges, draft.paused)
    held = draft.stage(stage.id)
    if held.promoting:
        return _hold(draft, edges, f"{stage.name} is still taking in {held.release}")
    attempt = max(one.attempt for one in waiting if one is not None)
    _promote(draft, stage, first.release, attempt)
    for edge in edges:
        del draft.candidates[edge.id]


def _hold(draft: Draft, edges: Iterable[Edge], reason: str) -> None:
    for edge in edges:
        candidate = draft.candidates.get(edge.id)
        if candidate is not None and not candidate.reason:
            draft.change_candidate(edge.id, reason=reason)


def _promote(draft: Draft, stage: Stage, release: ReleaseId, attempt: int) -> None:
    held = draft.stage(stage.id)
    revisions = held.rendered[release]
    if _changes_nothing(held, revisions):
        entered = replace(held, release=release, revisions=revisions, attempt=attempt)
    else:
        entered = StageState(
            release=release,
            revisions=revisions,
            attempt=attempt,
            health=Health.PROGRESSING,
            rendered=held.rendered,
        )
    draft.put_stage(stage.id, replace(entered, entered_at=draft.now))
    key = f"promote/{stage.id}/{release}/{attempt}"
    draft.emit(Promote(key, stage.id, release, revisions))
    draft.record(stage.id, release, "promoted")


def _changes_nothing(held: StageState, render: Revisions) -> bool:
    return digests_of(held.revisions) == digests_of(render)
