"""Decisions of users, and of external programs in their place."""

from datetime import timedelta

from controlplane.pipelines.engine import events as ev
from controlplane.pipelines.engine.effects import Topic
from controlplane.pipelines.engine.gate_context import gate_context, save_gate_state
from controlplane.pipelines.engine.gate_evaluation import reject_release
from controlplane.pipelines.engine.rollout_engine import restart_rollout
from controlplane.pipelines.engine.state_draft import NotApplicable, StateDraft, clip
from controlplane.pipelines.gates.kinds.approval import approval_of
from controlplane.pipelines.gates.kinds.external import ExternalRule
from controlplane.pipelines.model.gate_rules import WORKFLOW, GateRule, needs_approval
from controlplane.pipelines.model.state import (
    Approval,
    GateState,
    GateStatus,
    Health,
    ReleaseRefusal,
    WaitingRelease,
)

_CALL_RETENTION = timedelta(minutes=15)
"""Time for which a recorded signed call could be replayed with a valid signature."""


def on_approved(draft: StateDraft, event: ev.Approved) -> None:
    """Adds an approval: once per user, for exactly the digests that the user saw."""
    context = gate_context(draft, event.gate)
    if not context.render:
        raise NotApplicable("the release is not rendered yet, so its digests are unknown")
    if event.digests != context.digests:
        raise NotApplicable("the release has changed since it was shown; review it again")
    if problem := approval_problem(context.gate.rule, context.state, event):
        raise NotApplicable(problem)
    approval = Approval(clip(event.actor), draft.now, clip(event.comment), event.digests)
    save_gate_state(draft, context, approvals=(*context.state.approvals, approval))
    draft.record(context.gate.id, context.release, f"approved: {event.comment}", event.actor)


def on_release_rejected(draft: StateDraft, event: ev.ReleaseRejected) -> None:
    """Rejects the release before the edge until it is retried or a newer one arrives."""
    context = gate_context(draft, event.gate)
    gate, reason = context.gate.id, f"rejected by {event.actor}: {event.comment}"
    if gate in draft.pipeline.workflow:
        save_gate_state(draft, context, status=GateStatus.CLOSED, reason=clip(reason))
    else:
        refusal = ReleaseRefusal(clip(event.actor), draft.now, clip(reason), gate)
        draft.change_candidate(draft.pipeline.gate[gate][0].id, refusal=refusal)
    draft.record(gate, context.release, f"rejected: {event.comment}", event.actor)
    draft.notify(Topic.REFUSED, gate, context.release, str(context.attempt), reason)


def on_skipped(draft: StateDraft, event: ev.Skipped) -> None:
    """Lets the waiting release pass the gate; the next one is evaluated again."""
    context = gate_context(draft, event.gate)
    if context.release != event.release:
        raise NotApplicable(f"release {context.release} is waiting there, not {event.release}")
    if context.state.skipped:
        raise NotApplicable(f"{context.gate.name} was {context.state.skipped}")
    save_gate_state(draft, context, skipped=clip(f"skipped by {event.actor}: {event.reason}"))
    draft.record(context.gate.id, context.release, f"skipped: {event.reason}", event.actor)


def on_externally_answered(draft: StateDraft, event: ev.ExternallyAnswered) -> None:
    """Applies a program's answer: a yes to the current digests, or a no to the release."""
    context = gate_context(draft, event.gate)
    gate = context.gate
    if not isinstance(gate.rule, ExternalRule) or event.actor != gate.rule.account:
        raise NotApplicable(f"{event.actor} is not the account that answers gate {gate.name}")
    if context.release != event.release or not context.render:
        raise NotApplicable(f"release {event.release} is not waiting there")
    if event.call in draft.calls:
        raise NotApplicable("this call was already accepted")
    if event.call:
        recent = {key: at for key, at in draft.calls.items() if draft.now - at < _CALL_RETENTION}
        draft.calls = {**recent, clip(event.call): draft.now}
    if not event.passed:
        edge, _ = draft.pipeline.gate[gate.id]
        return reject_release(draft, edge, gate, f"{event.actor}: {event.reason}")
    if context.state.approvals:
        raise NotApplicable(f"{event.actor} has already answered")
    approval = Approval(clip(event.actor), draft.now, clip(event.reason), context.digests)
    save_gate_state(draft, context, approvals=(approval,))
    draft.record(gate.id, context.release, f"passed: {event.reason}", event.actor)


def on_approvers_left(draft: StateDraft, event: ev.ApproversLeft) -> None:
    """Voids the approvals of users who may no longer approve, for waiting releases."""
    disabled = {clip(actor) for actor in event.actors}
    for id in (*draft.pipeline.gate, *draft.pipeline.workflow):
        try:
            context = gate_context(draft, id)
        except NotApplicable:
            continue
        approvals = context.state.approvals
        valid = tuple(approval for approval in approvals if approval.actor not in disabled)
        if len(valid) == len(approvals):
            continue
        save_gate_state(draft, context, approvals=valid)
        text = "approval void: the approver may no longer approve"
        draft.record(id, context.release, text)
        draft.notify(Topic.APPROVAL_VOIDED, id, context.release, f"left {len(valid)}", text)


def on_retried(draft: StateDraft, event: ev.Retried) -> None:
    """Evaluates all gates of a refused release again, or promotes a failed release again."""
    stopped_edges = [
        (edge, candidate)
        for edge, candidate in draft.waiting_edges(event.stage, event.release)
        if candidate.refusal or candidate.render_error
    ]
    for edge, candidate in stopped_edges:
        draft.candidates[edge.id] = WaitingRelease(candidate.release, candidate.attempt + 1)
    state = draft.stage(event.stage)
    has_failed = state.release == event.release and state.health == Health.FAILED
    if has_failed and event.stage != draft.pipeline.first.id:
        return _promote_again(draft, event)
    workflow_failed = state.workflow is not None and state.workflow.status is GateStatus.CLOSED
    if has_failed and workflow_failed:
        draft.change_stage(event.stage, attempt=state.attempt + 1, workflow=None)
    elif not stopped_edges:
        raise NotApplicable(f"release {event.release} was neither refused nor failed there")
    draft.record(event.stage, event.release, "retry requested", event.actor)


def on_aborted(draft: StateDraft, event: ev.Aborted) -> None:
    """Stops the rollout; the stage has failed with the release."""
    state = draft.promoting_stage(event.stage, event.release)
    if event.stage == draft.pipeline.first.id:
        raise NotApplicable("the first stage follows git: there is nothing to abort")
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


def on_lifted(draft: StateDraft, event: ev.Lifted) -> None:
    """Acknowledges the rollback of a stage."""
    if not draft.stage(event.stage).hold:
        raise NotApplicable("the stage has no rollback notice")
    draft.change_stage(event.stage, hold="")
    draft.record(event.stage, draft.stage(event.stage).release, "hold lifted", event.actor)


def on_revision_denied(draft: StateDraft, event: ev.RevisionDenied) -> None:
    """Denies a commit or digest in all stages; above the limit the oldest denial is dropped."""
    if event.revision in draft.known_bad:
        raise NotApplicable(f"{event.revision} is already denied")
    draft.deny_revision(event.revision, f"{event.actor}: {event.reason}")
    draft.record("", None, f"{event.revision} denied in all stages: {event.reason}", event.actor)
    for stage, state in draft.stages.items():
        denied_reason = draft.denied_reason(state.revisions.values())
        if state.release is not None and denied_reason:
            draft.notify(Topic.REFUSED, stage, state.release, event.revision, denied_reason)


def on_denial_removed(draft: StateDraft, event: ev.DenialRemoved) -> None:
    """Removes the denial of a revision."""
    if draft.known_bad.pop(event.revision, None) is None:
        raise NotApplicable(f"{event.revision} is not denied")
    draft.record("", None, f"{event.revision} no longer denied", event.actor)


def on_paused(draft: StateDraft, event: ev.Paused) -> None:
    """Pauses the pipeline: releases that have entered a stage settle there, nothing else moves."""
    if draft.paused is not None:
        raise NotApplicable(draft.paused)
    reason = f": {event.reason}" if event.reason else ""
    draft.paused = clip(f"paused by {event.actor}{reason}")
    draft.record("", None, f"paused{reason}", event.actor)


def on_resumed(draft: StateDraft, event: ev.Resumed) -> None:
    """Resumes the pipeline."""
    if draft.paused is None:
        raise NotApplicable("the pipeline is not paused")
    draft.paused = None
    draft.record("", None, "resumed", event.actor)


def approval_problem(rule: GateRule, before: GateState, event: ev.Approved) -> str | None:
    """Returns the reason why this user cannot approve here, or None."""
    if any(approval.actor == clip(event.actor) for approval in before.approvals):
        return f"{event.actor} has already approved"
    approval = approval_of(rule)
    if approval is None:
        return None if rule.asks_users else "this gate does not ask for approval"
    if event.is_author and approval.not_author:
        return "the author or pusher of a release cannot approve it"
    if len(before.approvals) >= approval.quorum:
        return "the gate already has its approvals"
    if rule.kind == WORKFLOW and not needs_approval(rule, before):
        return "approval is possible only after the preceding steps have passed"
    if event.actor in approval.people or set(event.groups) & set(approval.groups):
        return None
    if approval.people or approval.groups:
        names = ", ".join((*approval.people, *approval.groups))
        return f"only these may approve here: {names}"
    return None


def _promote_again(draft: StateDraft, event: ev.Retried) -> None:
    if draft.paused is not None:
        raise NotApplicable(draft.paused)
    if denied_reason := draft.denied_reason(draft.stage(event.stage).revisions.values()):
        raise NotApplicable(denied_reason)
    restart_rollout(draft, draft.pipeline.stage[event.stage])
    draft.record(event.stage, event.release, "promoted again", event.actor)
