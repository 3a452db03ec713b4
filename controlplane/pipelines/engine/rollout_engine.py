"""Rollout of a release over the services of a stage, and rollback to the last good release."""

from dataclasses import replace
from datetime import timedelta

from controlplane.pipelines.engine.effects import Promote, Topic
from controlplane.pipelines.engine.health import PASSED_BEFORE
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.model.pipeline import Stage, StageId
from controlplane.pipelines.model.rollout import Progress, RolloutState, Strategy, next_batch
from controlplane.pipelines.model.state import (
    GitChangeState,
    Health,
    ReleaseId,
    Revisions,
    StageState,
)


def continue_rollout(draft: StateDraft, stage: Stage) -> None:
    """Gives the release to the next services of the stage."""
    state = draft.stage(stage.id)
    if state.release is None or not state.promoting:
        return
    if reason := draft.paused or _missing_canaries(stage, state):
        return draft.change_stage(stage.id, rollout_reason=clip(reason))
    batch = next_batch(stage.rollout, rollout_state(draft, stage, state), draft.now)
    if batch.wake is not None:
        draft.wake_at(batch.wake)
    if not batch.services:
        is_request_open = state.change is not None and state.change.state is GitChangeState.OPEN
        reason = str(state.change) if is_request_open else batch.reason
        return draft.change_stage(stage.id, rollout_reason=clip(reason))
    revisions = {service: state.revisions[service] for service in batch.services}
    if reason := draft.denied_reason(revisions.values()):
        return draft.change_stage(stage.id, rollout_reason=clip(reason))
    give_release(draft, stage.id, state.release, revisions)
    draft.change_stage(
        stage.id,
        progress={**state.progress, **dict.fromkeys(revisions, Progress.GIVEN)},
        wave_begun_at=state.wave_begun_at or draft.now,
    )
    if len(revisions) < len(state.revisions):
        draft.record(stage.id, state.release, f"given to {len(revisions)} services: {batch.reason}")
    continue_rollout(draft, stage)


def give_release(
    draft: StateDraft, stage: StageId, release: ReleaseId, revisions: Revisions
) -> None:
    """Gives services of the stage their revisions, as its next batch."""
    state = draft.stage(stage)
    key = f"promote/{stage}/{release}/{state.attempt}/{state.batches}"
    draft.emit(Promote(key, stage, release, revisions))
    draft.change_stage(stage, batches=state.batches + 1)


def rollout_state(draft: StateDraft, stage: Stage, state: StageState) -> RolloutState:
    """Returns the rollout state over the existing services with a revision."""
    waves = stage.waves or (stage.services,)
    existing = tuple(
        tuple(service for service in wave if service in state.revisions) for wave in waves
    )
    return RolloutState(
        waves=tuple(wave for wave in existing if wave),
        progress=state.progress,
        frozen=draft.frozen,
        wave_done_at=state.wave_done_at,
        group_of=stage.group_of,
        room=draft.room,
    )


def restart_rollout(draft: StateDraft, stage: Stage) -> None:
    """Gives the release again to the services that are not healthy with it, or to all."""
    state = draft.stage(stage.id)
    change = state.change
    healthy = [id for id, progress in state.progress.items() if progress is Progress.HEALTHY]
    partly = stage.rollout.strategy is not Strategy.ALL and len(healthy) < len(state.revisions)
    draft.stages[stage.id] = replace(
        state.cleared,
        release=state.release,
        revisions=state.revisions,
        attempt=state.attempt + 1,
        entered_at=state.entered_at,
        health=Health.PROGRESSING,
        progress=dict.fromkeys(healthy, Progress.HEALTHY) if partly else {},
        wave_done_at=state.wave_done_at,
        hold=state.hold,
        change=change if change and change.state is GitChangeState.LANDED else None,
    )


def check_verification(draft: StateDraft, stage: Stage) -> None:
    """Records verified releases; rolls back releases that failed before verification."""
    state = draft.stage(stage.id)
    if state.release is None or state.good_release == state.release:
        return
    if state.health is Health.HEALTHY:
        seconds = stage.verification.soak_s if stage.verification else 0
        until = (state.verified_at or draft.now) + timedelta(seconds=seconds)
        if draft.now >= until:
            draft.change_stage(stage.id, good_release=state.release, good=state.revisions)
        else:
            draft.wake_at(until)
    elif state.health is Health.FAILED and stage.verification and not state.stopped:
        roll_back(draft, stage, state.reason)


def roll_back(draft: StateDraft, stage: Stage, failure: str) -> None:
    """Rolls the stage back to its last good release, and denies the failed one."""
    state = draft.stage(stage.id)
    good = {service: r for service, r in state.good.items() if service in stage.services}
    if state.release is None or state.good_release is None or not good:
        return
    text = clip(f"{state.release} was rolled back to {state.good_release}: {failure}")
    good_digests = {revision.digest for revision in good.values()}
    for revision in state.revisions.values():
        if revision.digest not in good_digests:
            draft.deny_revision(revision.digest, f"towline: {failure}")
    key = f"back/{stage.id}/{state.release}/{state.attempt}/{state.batches}"
    draft.emit(Promote(key, stage.id, state.good_release, good, back=True))
    draft.record(stage.id, state.release, text)
    draft.notify(Topic.ROLLED_BACK, stage.id, state.release, str(state.batches), text)
    draft.stages[stage.id] = replace(
        state.cleared,
        release=state.good_release,
        revisions=good,
        attempt=state.attempt + 1,
        entered_at=draft.now,
        health=Health.PROGRESSING,
        reason=text,
        progress=dict.fromkeys(good, Progress.GIVEN),
        wave_begun_at=draft.now,
        batches=state.batches + 1,
        hold=text,
        workflow=PASSED_BEFORE,
    )


def _missing_canaries(stage: Stage, state: StageState) -> str:
    """Returns the error if no canary exists; after the first wave it no longer matters."""
    if not stage.waves or stage.waves[0] or state.wave_done_at is not None:
        return ""
    return f"none of the canary clusters is in the stage: {', '.join(stage.rollout.canaries)}"
