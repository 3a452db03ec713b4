"""Promotion through git: until the change is merged, and its failures."""

from dataclasses import replace
from datetime import datetime, timedelta

from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.effects import FollowChange
from controlplane.pipelines.engine.health import PASSED_BEFORE
from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft
from controlplane.pipelines.model.pipeline import Stage, StageId
from controlplane.pipelines.model.rollout import Progress
from controlplane.pipelines.model.state import (
    GitChangeState,
    GitWriteStatus,
    Health,
    StageState,
    WaitingRelease,
)

_FIRST_INTERVAL_S = 15
_MAX_INTERVAL_S = 300


def on_changed(draft: StateDraft, event: ev.Changed) -> None:
    """Records the state of a release's change in git; the history mentions it once."""
    _check_promoted_by_git(draft, event.stage)
    state = draft.occupied_stage(event.stage, event.release)
    before, change = state.change, event.change
    if before is not None and before.state is GitChangeState.LANDED:
        raise NotApplicable(f"the release was already merged: {before}")
    if before is not None and (before.state, before.number) == (change.state, change.number):
        return
    if change.state is GitChangeState.OPEN:
        next_at = _next_check_time(draft, 0)
        waiting = replace(change, looked_at=draft.now, next_at=next_at)
        draft.change_stage(event.stage, change=waiting)
    else:
        revisions = {id: replace(r, commit=change.commit) for id, r in state.revisions.items()}
        draft.change_stage(event.stage, change=change, revisions=revisions, wave_begun_at=draft.now)
    draft.record(event.stage, event.release, str(change))


def on_change_hinted(draft: StateDraft, event: ev.ChangeHinted) -> None:
    """Checks a waiting pull request now, unless that was done at this very moment."""
    for stage, state in tuple(draft.stages.items()):
        change = _open_request(state)
        if change and change.repository_id == event.repository_id and change.looked_at != draft.now:
            draft.change_stage(stage, change=replace(change, next_at=draft.now))


def on_base_moved(draft: StateDraft, event: ev.BaseMoved) -> None:
    """Moves the release back before the gates of its stage, where it is rendered again."""
    _check_promoted_by_git(draft, event.stage)
    state = draft.promoting_stage(event.stage, event.release)
    draft.record(event.stage, event.release, f"returned to its gates: {event.reason}")
    draft.stages[event.stage] = _last_good_state(draft, event.stage, state)
    for edge in draft.pipeline.edges_into[event.stage]:
        draft.candidates[edge.id] = WaitingRelease(event.release, attempt=state.attempt + 1)


def follow_change(draft: StateDraft, stage: Stage) -> None:
    """Requests a check of a waiting pull request when its time has come."""
    state = draft.stage(stage.id)
    change = _open_request(state)
    next_at = change.next_at if change else None
    if change is None or state.release is None or next_at is None:
        return
    if draft.now >= next_at:
        looks, next_at = change.looks + 1, _next_check_time(draft, change.looks + 1)
        key = f"follow/{stage.id}/{state.release}/{state.attempt}/{looks}"
        revisions = {id: r for id, r in state.revisions.items() if id in state.progress}
        draft.emit(FollowChange(key, stage.id, state.release, revisions))
        checked = replace(change, looks=looks, looked_at=draft.now, next_at=next_at)
        draft.change_stage(stage.id, change=checked)
    draft.wake_at(next_at)


def _check_promoted_by_git(draft: StateDraft, id: StageId) -> None:
    stage = draft.pipeline.stage.get(id)
    if stage is None or stage.git is None:
        raise NotApplicable("the stage is not promoted by git")


def _open_request(state: StageState) -> GitWriteStatus | None:
    """Returns the pull request that the stage waits for, if any."""
    is_open = state.change is not None and state.change.state is GitChangeState.OPEN
    return state.change if is_open and not state.stopped else None


def _next_check_time(draft: StateDraft, looks: int) -> datetime:
    """Returns the time of the next check; the interval grows with each one."""
    seconds = min(_FIRST_INTERVAL_S * 1.5 ** min(looks, 20), _MAX_INTERVAL_S)
    return draft.now + timedelta(seconds=seconds)


def _last_good_state(draft: StateDraft, stage: StageId, state: StageState) -> StageState:
    """Returns the stage with its last good release, if any, and without a pending one."""
    rendered = {key: revisions for key, revisions in state.rendered.items() if key != state.release}
    base = replace(
        state.cleared,
        reason="its release returned to its gates",
        hold=state.hold,
        rendered=rendered,
    )
    good = {
        service: r
        for service, r in state.good.items()
        if service in draft.pipeline.stage[stage].services
    }
    if not good:
        return base
    return replace(
        base,
        release=state.good_release,
        revisions=good,
        health=Health.PROGRESSING,
        verified=True,
        progress=dict.fromkeys(good, Progress.HEALTHY),
        workflow=PASSED_BEFORE,
    )
