"""Rollout of a release over the services of a stage, and rollback to the last good release."""

from dataclasses import replace
from datetime import timedelta

from controlplane.pipelines.engine.draft import Draft, clip
from controlplane.pipelines.engine.effects import Promote, Topic
from controlplane.pipelines.engine.health import PASSED_BEFORE
from controlplane.pipelines.model.pipeline import Stage
from controlplane.pipelines.model.rollout import Progress, RolloutStanding, Strategy, next_batch
from controlplane.pipelines.model.state import GitChangeState, Health, StageState


def continue_rollout(draft: Draft, stage: Stage) -> None:
    """Gives the release to the next services of the stage."""
    held = draft.stage(stage.id)
    if held.release is None or not held.promoting or not held.revisions:
        return
    if draft.paused is not None:
        return _tell(draft, stage, draft.paused)
    if missing := _missing_canaries(stage, held):
        return _tell(draft, stage, missing)
    batch = next_batch(stage.rollout, rollout_state(draft, stage, held), draft.now)
    if batch.wake is not None:
        draft.wake(batch.wake)
    if not batch.services:
        waits = held.change is not None and held.change.state is GitChangeState.OPEN
        return _tell(draft, stage, str(held.change) if waits else batch.reason)
    revisions = {service: held.revisions[service] for service in batch.services}
    if bad := draft.denied_reason(revisions.values()):
        return _tell(draft, stage, bad)
    key = f"promote/{stage.id}/{held.release}/{held.attempt}/{held.batches}"
    draft.emit(Promote(key, stage.id, held.release, revisions))
    given = dict.fromkeys(batch.services, Progress.GIVEN)
    draft.change_stage(stage.id, progress={**held.progress, **given}, batches=held.batches + 1)
    if len(given) < len(held.revisions):
        draft.record(stage.id, held.release, f"given to {len(given)} services: {batch.reason}")
    continue_rollout(draft, stage)


def rollout_state(draft: Draft, stage: Stage, held: StageState) -> RolloutStanding:
    """Returns the rollout state over the existing services with a revision."""
    waves = stage.waves or (stage.services,)
    present = tuple(
        tuple(service for service in wave if service in held.revisions) for wave in waves
    )
    return RolloutStanding(
        waves=tuple(wave for wave in present if wave),
        progress=held.progress,
        frozen=draft.frozen,
        wave_done_at=held.wave_done_at,
        group_of=stage.group_of,
        room=draft.room,
    )


def restart_rollout(draft: Draft, stage: Stage) -> None:
    """Gives the release again to the services that are not healthy with it, or to all."""
    held = draft.stage(stage.id)
    well = {service: how for service, how in held.progress.items() if how is Progress.HEALTHY}
    partly = stage.rollout.strategy is not Strategy.ALL and len(well) < len(held.revisions)
    draft.change_stage(
        stage.id,
        attempt=held.attempt + 1,
        health=Health.PROGRESSING,
        reason="",
        verified=False,
        verified_at=None,
        stopped="",
        progress=well if partly else {},
        settled=False,
        workflow=None,
        change=held.change if held.change and held.change.state is GitChangeState.LANDED else None,
    )


def check_verification(draft: Draft, stage: Stage) -> None:
    """Records verified releases; rolls back releases that failed before verification."""
    held = draft.stage(stage.id)
    if held.release is None or not held.revisions or held.good_release == held.release:
        return
    if held.verified and held.health is Health.HEALTHY:
        seconds = stage.verification.soak_s if stage.verification else 0
        until = (held.verified_at or draft.now) + timedelta(seconds=seconds)
        if draft.now >= until:
            draft.change_stage(stage.id, good_release=held.release, good=held.revisions)
        else:
            draft.wake(until)
    elif held.health is Health.FAILED and stage.verification and not held.stopped:
        roll_back(draft, stage, held.reason)


def roll_back(draft: Draft, stage: Stage, why: str) -> None:
    """Rolls the stage back to its last good release, and denies the failed one."""
    held = draft.stage(stage.id)
    good = {service: r for service, r in held.good.items() if service in stage.services}
    if held.release is None or held.good_release is None or not good:
        return
    text = clip(f"{held.release} was rolled back to {held.good_release}: {why}")
    kept = {revision.digest for revision in good.values()}
    for revision in held.revisions.values():
        if revision.digest not in kept:
            draft.deny_revision(revision.digest, f"towline: {why}")
    key = f"back/{stage.id}/{held.release}/{held.attempt}/{held.batches}"
    draft.emit(Promote(key, stage.id, held.good_release, good, back=True))
    draft.record(stage.id, held.release, text)
    draft.notify(Topic.ROLLED_BACK, stage.id, held.release, str(held.batches), text)
    draft.put_stage(
        stage.id,
        replace(
            held,
            release=held.good_release,
            revisions=good,
            attempt=held.attempt + 1,
            health=Health.PROGRESSING,
            reason=text,
            healthy_since=None,
            verified=False,
            verified_at=None,
            progress=dict.fromkeys(good, Progress.GIVEN),
            batches=held.batches + 1,
            hold=text,
            change=None,
            settled=False,
            workflow=PASSED_BEFORE if stage.workflow else None,
        ),
    )


def _missing_canaries(stage: Stage, held: StageState) -> str:
    """Returns the error if no canary exists. After the first wave, missing canaries no longer
    matter.
    """
    if stage.rollout.strategy is not Strategy.CANARY or not stage.waves:
        return ""
    if stage.waves[0] or held.wave_done_at is not None:
        return ""
    return f"none of the canary clusters is in the stage: {', '.join(stage.rollout.canaries)}"


def _tell(draft: Draft, stage: Stage, reason: str) -> None:
    if draft.stage(stage.id).rollout_reason != clip(reason):
        draft.change_stage(stage.id, rollout_reason=clip(reason))
