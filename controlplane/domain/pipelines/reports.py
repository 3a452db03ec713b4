"""What the fleet reports: revisions and health of stages, results of renders."""

from controlplane.domain.pipelines.draft import Draft, clip
from controlplane.domain.pipelines.effects import Topic
from controlplane.domain.pipelines.events import (
    Rendered,
    RenderFailed,
    StageHealth,
    StageObserved,
)
from controlplane.domain.pipelines.model import StageId
from controlplane.domain.pipelines.state import (
    GateState,
    Health,
    Release,
    ReleaseId,
    StageState,
    digests_of,
    fingerprint,
)


def stage_observed(draft: Draft, event: StageObserved) -> None:
    """The first stage follows git: whatever new it holds is the next release."""
    if event.stage != draft.pipeline.first.id:
        return draft.note("only the first stage follows git")
    if not draft.covers(event.stage, event.revisions):
        return draft.note("the report is not about exactly the services of the stage")
    if event.revisions != draft.stage(event.stage).revisions:
        _begin_release(draft, event)
    set_health(draft, event.stage, event.health, event.reason)


def stage_health(draft: Draft, event: StageHealth) -> None:
    """Only the release that the stage holds has a say about its health."""
    held = draft.stage(event.stage)
    if held.release != event.release or not held.revisions:
        return draft.note(f"the stage does not hold release {event.release}")
    set_health(draft, event.stage, event.health, event.reason)


def rendered(draft: Draft, event: Rendered) -> None:
    """A first render completes what approvals are about; a different one voids them."""
    problem = _render_problem(draft, event)
    if problem:
        return draft.note(problem)
    renders = draft.stage(event.stage).rendered
    before = renders.get(event.release)
    if before is not None and digests_of(before) != digests_of(event.revisions):
        _void_approvals(draft, event.stage, event.release, fingerprint(event.revisions))
    for edge, _ in draft.waiting(event.stage, event.release):
        draft.change_candidate(edge.id, render_error="")
    draft.change_stage(event.stage, rendered={**renders, event.release: event.revisions})


def render_failed(draft: Draft, event: RenderFailed) -> None:
    """A release that cannot be rendered waits, and what was approved before is void."""
    waiting = draft.waiting(event.stage, event.release)
    if not waiting:
        return draft.note(f"release {event.release} does not wait before the stage")
    for edge, _ in waiting:
        draft.change_candidate(edge.id, render_error=clip(event.reason) or "unknown reason")
    _void_approvals(draft, event.stage, event.release, "failed")
    renders = draft.stage(event.stage).rendered
    kept = {key: value for key, value in renders.items() if key != event.release}
    draft.change_stage(event.stage, rendered=kept)


def set_health(draft: Draft, stage: StageId, health: Health, reason: str) -> None:
    """Note how a stage is; healthy once is verified, healthy on end is what soaking counts."""
    held = draft.stage(stage)
    healthy = health == Health.HEALTHY
    draft.change_stage(
        stage,
        health=health,
        reason=clip(reason),
        healthy_since=(held.healthy_since or draft.now) if healthy else None,
        verified=held.verified or healthy,
    )
    if healthy and not held.verified:
        _announce(draft, stage, Topic.STAGE_VERIFIED, "healthy")
    if health == Health.FAILED != held.health:
        _announce(draft, stage, Topic.STAGE_FAILED, f"failed: {reason}")


def _begin_release(draft: Draft, event: StageObserved) -> None:
    draft.number += 1
    name = ReleaseId(f"r{draft.number}-{fingerprint(event.revisions)}")
    draft.releases[name] = Release(
        name, draft.number, event.revisions, clip(event.author), draft.now
    )
    draft.put_stage(
        event.stage, StageState(release=name, revisions=event.revisions, entered_at=draft.now)
    )
    draft.record(event.stage, name, "seen in git", event.author)


def _render_problem(draft: Draft, event: Rendered) -> str | None:
    if not draft.waiting(event.stage, event.release):
        return f"release {event.release} does not wait before the stage"
    if not draft.covers(event.stage, event.revisions):
        return "the render is not of exactly the services of the stage"
    moving = set(draft.releases[event.release].commits.values())
    strange = sorted({one.commit for one in event.revisions.values()} - moving)
    return f"commit {strange[0]} is not part of the release" if strange else None


def _void_approvals(draft: Draft, stage: StageId, release: ReleaseId, nonce: str) -> None:
    for edge, candidate in draft.waiting(stage, release):
        given = [gate for gate, one in candidate.gates.items() if one.approvals]
        gates = {key: GateState() for key in candidate.gates}
        draft.change_candidate(edge.id, gates=gates)
        for gate in given:
            text = "what would be deployed has changed: approvals given before are void"
            draft.record(gate, release, text)
            draft.notify(Topic.APPROVAL_VOIDED, gate, release, nonce, text)


def _announce(draft: Draft, stage: StageId, topic: Topic, text: str) -> None:
    held = draft.stage(stage)
    if held.release is None:
        return
    draft.record(stage, held.release, text)
    name = draft.pipeline.stage[stage].name
    draft.notify(topic, stage, held.release, str(held.attempt), f"{name} {text}")
