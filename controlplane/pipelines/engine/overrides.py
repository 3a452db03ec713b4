"""Manual interventions other than approval: skip, abort, external answers, removed approvers,
acknowledgements.
"""

from datetime import timedelta

from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.events import (
    Aborted,
    ApproversLeft,
    ExternallyAnswered,
    Lifted,
    Skipped,
)
from controlplane.pipelines.engine.gate_context import gate_context, save_gate_state
from controlplane.pipelines.engine.gate_evaluation import reject_release
from controlplane.pipelines.engine.state_draft import StateDraft, clip
from controlplane.pipelines.gates.kinds.external import ExternalRule
from controlplane.pipelines.model.state import Approval, Health

_CALL_RETENTION = timedelta(minutes=15)


def on_skipped(draft: StateDraft, event: Skipped) -> None:
    """Lets the waiting release pass the gate; the next one is evaluated again."""
    context = gate_context(draft, event.gate)
    if isinstance(context, str):
        return draft.emit_ignored(context)
    if context.release != event.release:
        return draft.emit_ignored(
            f"release {context.release} is waiting there, not {event.release}"
        )
    if context.state.skipped:
        return draft.emit_ignored(f"{context.gate.name} was {context.state.skipped}")
    save_gate_state(draft, context, skipped=clip(f"skipped by {event.actor}: {event.reason}"))
    draft.record(context.gate.id, context.release, f"skipped: {event.reason}", event.actor)


def on_aborted(draft: StateDraft, event: Aborted) -> None:
    """Stops the rollout; the stage has failed with the release."""
    state = draft.stage(event.stage)
    if state.release != event.release or not state.promoting or not state.revisions:
        return draft.emit_ignored(f"the stage is not rolling out {event.release}")
    if event.stage == draft.pipeline.first.id:
        return draft.emit_ignored("the first stage follows git: there is nothing to abort")
    text = clip(f"aborted by {event.actor}: {event.reason}")
    draft.change_stage(
        event.stage,
        stopped=text,
        health=Health.FAILED,
        reason=text,
        healthy_since=None,
        settled=False,
    )
    draft.record(event.stage, event.release, text, event.actor)
    draft.notify(Topic.STAGE_FAILED, event.stage, event.release, f"a{state.attempt}", text)


def on_lifted(draft: StateDraft, event: Lifted) -> None:
    """Acknowledges the rollback of a stage."""
    if not draft.stage(event.stage).hold:
        return draft.emit_ignored("the stage has no rollback notice")
    draft.change_stage(event.stage, hold="")
    draft.record(event.stage, draft.stage(event.stage).release, "hold lifted", event.actor)


def on_externally_answered(draft: StateDraft, event: ExternallyAnswered) -> None:
    """Applies a program's answer: approval counts for the current digests, refusal stops the
    release.
    """
    context = gate_context(draft, event.gate)
    if isinstance(context, str):
        return draft.emit_ignored(context)
    gate = context.gate
    if not isinstance(gate.rule, ExternalRule) or event.actor != gate.rule.account:
        return draft.emit_ignored(f"{event.actor} is not the account that answers gate {gate.name}")
    if context.release != event.release or context.render is None:
        return draft.emit_ignored(f"release {event.release} is not waiting there")
    if event.call in draft.calls:
        return draft.emit_ignored("this call was already accepted")
    _remember_call(draft, event.call)
    if not event.passed:
        edge, _ = draft.pipeline.gate[gate.id]
        return reject_release(draft, edge, gate, f"{event.actor}: {event.reason}")
    if context.state.approvals:
        return draft.emit_ignored(f"{event.actor} has already answered")
    approval = Approval(clip(event.actor), draft.now, clip(event.reason), context.digests)
    save_gate_state(draft, context, approvals=(approval,))
    draft.record(gate.id, context.release, f"passed: {event.reason}", event.actor)


def _remember_call(draft: StateDraft, call_id: str) -> None:
    """Remembers signed calls for as long as a recorded call could be replayed with a valid
    signature.
    """
    if call_id:
        recent = {key: at for key, at in draft.calls.items() if draft.now - at < _CALL_RETENTION}
        draft.calls = {**recent, clip(call_id): draft.now}


def on_approvers_left(draft: StateDraft, event: ApproversLeft) -> None:
    """Voids the approvals of users who may no longer approve, for waiting releases."""
    disabled = {clip(actor) for actor in event.actors}
    for id in (*draft.pipeline.gate, *draft.pipeline.workflow):
        context = gate_context(draft, id)
        if isinstance(context, str):
            continue
        valid = tuple(
            approval for approval in context.state.approvals if approval.actor not in disabled
        )
        if len(valid) == len(context.state.approvals):
            continue
        save_gate_state(draft, context, approvals=valid)
        text = "approval void: the approver may no longer approve"
        draft.record(id, context.release, text)
        draft.notify(Topic.APPROVAL_VOIDED, id, context.release, f"left {len(valid)}", text)
