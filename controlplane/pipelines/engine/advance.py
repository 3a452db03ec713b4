"""Automatic progress of a pipeline: releases queue, pass gates and enter stages."""

import hashlib
from collections.abc import Iterable
from dataclasses import replace

from controlplane.pipelines.engine.effects import RenderStage
from controlplane.pipelines.engine.gate_evaluation import changes_nothing, evaluate_edge
from controlplane.pipelines.engine.git_merge import follow_change
from controlplane.pipelines.engine.health import advance_workflow
from controlplane.pipelines.engine.rollout_engine import (
    check_verification,
    continue_rollout,
    give_release,
)
from controlplane.pipelines.engine.silence import wake_for_silence
from controlplane.pipelines.engine.starting import run_triggers
from controlplane.pipelines.engine.state_draft import StateDraft
from controlplane.pipelines.model.pipeline import Stage, StageEdge
from controlplane.pipelines.model.state import Health, ReleaseId, WaitingRelease


def advance(draft: StateDraft) -> None:
    """Moves every release as far as it may go now, one stage after the other."""
    run_triggers(draft)
    for stage in draft.pipeline.order:
        edges = draft.pipeline.edges_into[stage.id]
        advance_workflow(draft, stage)
        if edges:
            check_verification(draft, stage)
        wake_for_silence(draft, stage)
        for edge in edges:
            _queue_release(draft, edge)
            evaluate_edge(draft, edge)
        if edges:
            _enter_stage(draft, stage, edges)
            continue_rollout(draft, stage)
            follow_change(draft, stage)


def _queue_release(draft: StateDraft, edge: StageEdge) -> None:
    """Puts the release of the source stage before the edge, unless the target stage has had it."""
    release = draft.stage(edge.source).release
    waiting = draft.candidates.get(edge.id)
    if release is None or not _is_newer(draft, release, draft.stage(edge.target).release):
        draft.candidates.pop(edge.id, None)
        return
    if waiting is None or waiting.release != release:
        draft.candidates[edge.id] = WaitingRelease(release)
        if waiting is not None:
            draft.record(edge.id, waiting.release, f"superseded by {release}")
    _request_render(draft, edge)


def _is_newer(draft: StateDraft, release: ReleaseId, current: ReleaseId | None) -> bool:
    return current is None or draft.releases[release].number > draft.releases[current].number


def _request_render(draft: StateDraft, edge: StageEdge) -> None:
    candidate = draft.candidates[edge.id]
    release, stage = candidate.release, edge.target
    services = draft.pipeline.stage[stage].services
    if not services or draft.render_of(stage, release) is not None:
        return
    scope = hashlib.sha256("\n".join(sorted(services)).encode()).hexdigest()[:8]
    key = f"render/{stage}/{release}/{candidate.attempt}/{scope}"
    if key != candidate.render_key:
        draft.change_candidate(edge.id, render_key=key)
        draft.emit(RenderStage(key, stage, release, draft.releases[release].commits))


def _enter_stage(draft: StateDraft, stage: Stage, edges: tuple[StageEdge, ...]) -> None:
    """Starts the release for which all edges into the stage are open, if any."""
    waiting = [draft.candidates[edge.id] for edge in edges if edge.id in draft.candidates]
    releases = {candidate.release for candidate in waiting}
    if len(waiting) < len(edges) or len(releases) > 1:
        return _set_wait_reason(draft, edges, "has not arrived on every edge into the stage")
    if any(candidate.reason for candidate in waiting):
        return _set_wait_reason(draft, edges, "waiting at another edge into the stage")
    if reason := _closed_reason(draft, stage):
        return _set_wait_reason(draft, edges, reason)
    attempt = max(candidate.attempt for candidate in waiting)
    _start_rollout(draft, stage, releases.pop(), attempt)
    for edge in edges:
        del draft.candidates[edge.id]


def _closed_reason(draft: StateDraft, stage: Stage) -> str | None:
    """Returns the reason why the stage accepts no release now."""
    state = draft.stage(stage.id)
    if draft.paused is not None:
        return draft.paused
    if state.promoting:
        detail = f": {state.silence.reason}" if state.silence.reason else ""
        return f"{stage.name} is still rolling out {state.release}{detail}"
    if all(service in draft.frozen for service in stage.services):
        return draft.frozen[stage.services[0]]
    return None


def _set_wait_reason(draft: StateDraft, edges: Iterable[StageEdge], reason: str) -> None:
    for edge in edges:
        candidate = draft.candidates.get(edge.id)
        if candidate is not None and not candidate.reason:
            draft.change_candidate(edge.id, reason=reason)


def _start_rollout(draft: StateDraft, stage: Stage, release: ReleaseId, attempt: int) -> None:
    state = draft.stage(stage.id)
    revisions = state.rendered[release]
    is_unchanged = changes_nothing(state, revisions)
    entered = state if is_unchanged else replace(state.cleared, health=Health.PROGRESSING)
    if is_unchanged and state.good_release == state.release:
        entered = replace(entered, good_release=release, good=revisions)
    draft.stages[stage.id] = replace(
        entered,
        release=release,
        revisions=revisions,
        attempt=attempt,
        entered_at=draft.now,
        change=None,
    )
    if is_unchanged:
        give_release(draft, stage.id, release, revisions)
    draft.record(stage.id, release, "promoted")
