"""What people and their programs do beside approving: skip, abort, answer, leave, look."""

from dataclasses import replace

from controlplane.domain.pipelines.decisions import find_waiting
from controlplane.domain.pipelines.draft import Draft, clip
from controlplane.domain.pipelines.effects import Topic
from controlplane.domain.pipelines.events import (
    Aborted,
    ApproversLeft,
    ExternallyAnswered,
    Lifted,
    Skipped,
)
from controlplane.domain.pipelines.judging import refuse
from controlplane.domain.pipelines.rules import ExternalRule
from controlplane.domain.pipelines.state import Approval, GateState, Health, digests_of


def skipped(draft: Draft, event: Skipped) -> None:
    """The release that waits passes the gate; the next one is asked again."""
    found = find_waiting(draft, event.gate, None)
    if isinstance(found, str):
        return draft.note(found)
    edge, gate, candidate = found
    if candidate.release != event.release:
        return draft.note(f"release {candidate.release} waits there, not {event.release}")
    before = candidate.gates.get(gate.id, GateState())
    if before.skipped:
        return draft.note(f"{gate.name} was {before.skipped}")
    text = clip(f"skipped by {event.actor}: {event.reason}")
    state = replace(before, skipped=text)
    draft.change_candidate(edge.id, gates={**candidate.gates, gate.id: state})
    draft.record(gate.id, candidate.release, f"skipped: {event.reason}", event.actor)


def aborted(draft: Draft, event: Aborted) -> None:
    """A roll-out stops where it is; the stage has failed with the release."""
    held = draft.stage(event.stage)
    if held.release != event.release or not held.promoting or not held.revisions:
        return draft.note(f"the stage is not taking in {event.release}")
    if event.stage == draft.pipeline.first.id:
        return draft.note("the first stage follows git: there is nothing to abort")
    text = clip(f"aborted by {event.actor}: {event.reason}")
    draft.change_stage(
        event.stage, stopped=text, health=Health.FAILED, reason=text, healthy_since=None
    )
    draft.record(event.stage, event.release, text, event.actor)
    draft.notify(Topic.STAGE_FAILED, event.stage, event.release, f"a{held.attempt}", text)


def lifted(draft: Draft, event: Lifted) -> None:
    """Somebody has seen that a stage was put back."""
    if not draft.stage(event.stage).hold:
        return draft.note("the stage has no hold")
    draft.change_stage(event.stage, hold="")
    draft.record(event.stage, draft.stage(event.stage).release, "hold lifted", event.actor)


def externally_answered(draft: Draft, event: ExternallyAnswered) -> None:
    """A program's yes counts for the digests of the moment; its no stops the release."""
    found = find_waiting(draft, event.gate, None)
    if isinstance(found, str):
        return draft.note(found)
    edge, gate, candidate = found
    render = draft.render_of(edge.target, candidate.release)
    if not isinstance(gate.rule, ExternalRule) or event.actor != gate.rule.account:
        return draft.note(f"{event.actor} does not answer at {gate.name}")
    if candidate.release != event.release or render is None:
        return draft.note(f"release {event.release} does not wait there")
    if not event.passed:
        return refuse(draft, edge, gate, f"{event.actor}: {event.reason}")
    state = candidate.gates.get(gate.id, GateState())
    if state.approvals:
        return draft.note(f"{event.actor} has answered already")
    given = Approval(clip(event.actor), draft.now, clip(event.reason), digests_of(render))
    after = replace(state, approvals=(given,))
    draft.change_candidate(edge.id, gates={**candidate.gates, gate.id: after})
    draft.record(gate.id, candidate.release, f"passed: {event.reason}", event.actor)


def approvers_left(draft: Draft, event: ApproversLeft) -> None:
    """The yes of somebody who has left no longer counts for what still waits."""
    gone = {clip(one) for one in event.actors}
    for edge in draft.pipeline.edges:
        candidate = draft.candidates.get(edge.id)
        for gate, state in candidate.gates.items() if candidate else ():
            kept = tuple(one for one in state.approvals if one.actor not in gone)
            if candidate is None or len(kept) == len(state.approvals):
                continue
            after = replace(state, approvals=kept)
            draft.change_candidate(edge.id, gates={**draft.candidates[edge.id].gates, gate: after})
            text = "an approval is void: who gave it may no longer approve"
            draft.record(gate, candidate.release, text)
            nonce = f"left {len(kept)}"
            draft.notify(Topic.APPROVAL_VOIDED, gate, candidate.release, nonce, text)
