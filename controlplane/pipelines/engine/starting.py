"""Releases that users, schedules or findings start, instead of commits."""

from dataclasses import replace

from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.effects import WriteFinding
from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft, clip
from controlplane.pipelines.model.state import (
    FoundStatus,
    Release,
    ReleaseId,
    StageState,
    TriggerState,
    UnreleasedState,
    fingerprint,
)
from controlplane.pipelines.model.triggers import Trigger
from controlplane.pipelines.triggers.kinds.schedule import ScheduleRule


def observe_revisions(draft: StateDraft, event: ev.StageObserved) -> bool:
    """Records the first stage's revisions; returns whether they are the newest release."""
    if event.revisions == draft.stage(event.stage).revisions:
        draft.unreleased = None
    elif draft.pipeline.on_commit:
        begin_release(
            draft, UnreleasedState(event.revisions, event.author), "seen in git", event.author
        )
    else:
        draft.unreleased = UnreleasedState(event.revisions, event.author)
    return draft.unreleased is None


def on_started(draft: StateDraft, event: ev.Started) -> None:
    """Makes the first stage's revisions a release."""
    if draft.paused is not None:
        raise NotApplicable(draft.paused)
    if draft.unreleased is None:
        raise NotApplicable(
            "nothing to start: the first stage has not changed since the newest release"
        )
    begin_release(draft, draft.unreleased, f"started: {event.reason}", event.actor)


def on_trigger_found(draft: StateDraft, event: ev.TriggerFound) -> None:
    """Queues a new finding to be written; the same one again only after a failure."""
    before = draft.triggers.get(event.trigger, TriggerState())
    is_same = before.finding == event.finding
    if event.trigger not in draft.pipeline.trigger:
        raise NotApplicable(f"trigger {event.trigger} does not exist")
    if is_same and (before.status is not FoundStatus.FAILED or before.at == draft.now):
        raise NotApplicable(f"{event.finding.value} was already found")
    attempt = before.attempt + 1 if is_same else 1
    draft.triggers[event.trigger] = TriggerState(
        before.slot, event.finding, FoundStatus.WAITING, attempt=attempt, at=draft.now
    )
    if not is_same:
        draft.record(event.trigger, None, f"found {event.finding}")


def on_finding_written(draft: StateDraft, event: ev.FindingWritten) -> None:
    """Records that a finding was written to the source of the first stage."""
    before = _pending_write(draft, event)
    text = str(event.change) if event.change else event.text
    written = replace(before, status=FoundStatus.DONE, reason=clip(text), change=event.change)
    draft.triggers[event.trigger] = written
    draft.record(event.trigger, None, text)


def on_finding_failed(draft: StateDraft, event: ev.FindingFailed) -> None:
    """Records that a finding could not be written; the next poll tries again."""
    before = _pending_write(draft, event)
    failed = replace(before, status=FoundStatus.FAILED, reason=clip(event.reason), at=draft.now)
    draft.triggers[event.trigger] = failed
    draft.record(event.trigger, None, f"could not be written: {event.reason}")


def run_triggers(draft: StateDraft) -> None:
    """Starts due releases of schedules and writes of findings, unless the pipeline is blocked."""
    for trigger in draft.pipeline.triggers:
        if isinstance(trigger.rule, ScheduleRule):
            _run_schedule(draft, trigger, trigger.rule)
        else:
            _request_write(draft, trigger)


def begin_release(draft: StateDraft, unreleased: UnreleasedState, text: str, actor: str) -> None:
    """Makes the first stage's revisions the next release."""
    stage = draft.pipeline.first.id
    draft.number += 1
    id = ReleaseId(f"r{draft.number}-{fingerprint(unreleased.revisions)}")
    draft.releases[id] = Release(
        id, draft.number, unreleased.revisions, clip(unreleased.author), draft.now
    )
    revisions = unreleased.revisions
    draft.stages[stage] = StageState(release=id, revisions=revisions, entered_at=draft.now)
    draft.unreleased = None
    draft.record(stage, id, text, actor)


def _run_schedule(draft: StateDraft, trigger: Trigger, rule: ScheduleRule) -> None:
    """Starts one release, however many times were missed."""
    state = draft.triggers.get(trigger.id, TriggerState())
    slot = state.slot or draft.now
    due = rule.next_after(slot)
    if draft.now >= due and draft.paused is None:
        slot = draft.now
        if draft.unreleased is not None:
            begin_release(
                draft, draft.unreleased, f"started by {trigger.name}", draft.unreleased.author
            )
            state = replace(state, status=FoundStatus.DONE, reason="")
        else:
            state = replace(state, reason="no changes")
        due = rule.next_after(slot)
    if slot != state.slot:
        draft.triggers[trigger.id] = replace(state, slot=slot)
    if due > draft.now:
        draft.wake_at(due)


def _request_write(draft: StateDraft, trigger: Trigger) -> None:
    state = draft.triggers.get(trigger.id)
    if state is None or state.finding is None or state.status is not FoundStatus.WAITING:
        return
    first = draft.pipeline.first
    frozen_reason = next(
        (draft.frozen[service] for service in first.services if service in draft.frozen), None
    )
    if blocked_reason := draft.paused or frozen_reason:
        draft.triggers[trigger.id] = replace(state, reason=blocked_reason)
        return
    key = f"found/{trigger.id}/{state.finding}/{state.attempt}"
    draft.triggers[trigger.id] = replace(state, status=FoundStatus.WRITING, reason="")
    draft.emit(WriteFinding(key, trigger.id, state.finding))


def _pending_write(draft: StateDraft, event: ev.FindingWritten | ev.FindingFailed) -> TriggerState:
    """Returns the state of a trigger that writes this finding. Raises NotApplicable otherwise."""
    state = draft.triggers.get(event.trigger, TriggerState())
    if state.status is not FoundStatus.WRITING or state.finding != event.finding:
        raise NotApplicable("another version has been found since")
    return state
