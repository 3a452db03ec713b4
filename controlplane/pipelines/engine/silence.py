"""Silent clusters: a wave goes on without them after its deadline, until they catch up.

A cluster is silent if its agent was last seen longer ago than its liveness limit. A cluster that
reports a failure is never left out.
"""

from collections.abc import Collection, Mapping
from datetime import datetime, timedelta

from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.model.pipeline import Stage
from controlplane.pipelines.model.rollout import Strategy
from controlplane.pipelines.model.state import Health, StageSilence, StageState
from controlplane.platform.names import join_names
from core.identity import ServiceId

_RECHECK_INTERVAL = timedelta(seconds=60)
"""Interval after the deadline: no event announces that a cluster became silent."""
_MAX_CLUSTER_NAMES = 10


def on_clusters_silent(draft: StateDraft, event: ev.ClustersSilent) -> None:
    """Replaces the set of services on silent clusters."""
    draft.silent = {service: clip(name) for service, name in event.services.items()}


def leave_out_silent(
    draft: StateDraft,
    stage: Stage,
    not_caught_up: Collection[ServiceId],
    unsettled: Collection[ServiceId],
) -> StageSilence:
    """Leaves out silent services after the deadline, unless more are silent than the limit allows.

    Those in `not_caught_up` stay left out if they were. Those in `unsettled` have the release and
    are neither healthy nor failed.
    """
    state = draft.stage(stage.id)
    left_out = {s: name for s, name in state.silence.left_out.items() if s in not_caught_up}
    silent = {s: draft.silent[s] for s in unsettled if s in draft.silent and s not in left_out}
    until, wait_reason = _deadline(draft, stage, state), ""
    if silent and draft.now < until:
        wait_reason = f"until {until:%F %T} UTC"
    elif silent:
        wait_reason = _exceeded_limit(stage, state, left_out.keys() | silent.keys())
    if wait_reason:
        reasons = [f"waits for silent clusters {wait_reason}: {_cluster_names(silent)}"]
    else:
        left_out, silent, reasons = {**left_out, **silent}, {}, []
    if left_out:
        reasons.append(f"goes on without silent clusters: {_cluster_names(left_out)}")
    silence = StageSilence(silent, left_out, clip("; ".join(reasons)))
    _announce_changes(draft, stage, silence, late=draft.now >= until)
    draft.change_stage(stage.id, silence=silence)
    return silence


def wake_for_silence(draft: StateDraft, stage: Stage) -> None:
    """Wakes the pipeline when the deadline of a wave passes, and periodically after it."""
    state = draft.stage(stage.id)
    if state.release is not None and state.health is Health.PROGRESSING:
        until = _deadline(draft, stage, state)
        draft.wake_at(until if draft.now < until else draft.now + _RECHECK_INTERVAL)


def _deadline(draft: StateDraft, stage: Stage, state: StageState) -> datetime:
    begun_at = state.wave_begun_at or state.entered_at or draft.now
    return begun_at + timedelta(seconds=stage.rollout.silent_deadline_seconds)


def _exceeded_limit(stage: Stage, state: StageState, left_out: Collection[ServiceId]) -> str:
    """Returns the limit that forbids to leave out these services. Empty if none does."""
    rollout, count = stage.rollout, len(state.revisions)
    if len(left_out) >= count:
        return "because they are the whole stage"
    if len(left_out) * 100 > rollout.max_silent_percent * count:
        return f"because they are more than {rollout.max_silent_percent}% of the stage"
    canaries = stage.waves[0] if rollout.strategy is Strategy.CANARY and stage.waves else ()
    return "because they are all canaries" if canaries and set(canaries) <= set(left_out) else ""


def _announce_changes(
    draft: StateDraft, stage: Stage, silence: StageSilence, *, late: bool
) -> None:
    """Records clusters that are left out, that are silent for too long, or that caught up."""
    before, nonce = draft.stage(stage.id).silence, draft.now.isoformat()
    caught_up = {s: name for s, name in before.left_out.items() if s not in silence.left_out}
    if caught_up:
        text = f"no longer left out: {_cluster_names(caught_up)}"
        draft.announce(Topic.CLUSTERS_BACK, stage, nonce, text)
    new = silence.left_out.keys() - before.left_out.keys() or (late and silence.waits_for)
    if new and silence.reason != before.reason:
        draft.announce(Topic.CLUSTERS_SILENT, stage, nonce, silence.reason)


def _cluster_names(services: Mapping[ServiceId, str]) -> str:
    """Returns the clusters of services, as many as a message can hold."""
    return join_names(sorted(set(services.values())), _MAX_CLUSTER_NAMES)
