"""Steps of a gate: their progress, and the checks that workers run for them.

A gate with a single check is a workflow of one step.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from controlplane.pipelines.engine.effects import RunCheck
from controlplane.pipelines.engine.gate_context import GateContext
from controlplane.pipelines.engine.state_draft import StateDraft
from controlplane.pipelines.gates.kinds.wait import WaitRule
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import ONLY_STEP, CheckRule, GateVerdict, Step
from controlplane.pipelines.model.state import CheckState, GateStatus, fingerprint


def advance_steps(
    draft: StateDraft, context: GateContext, steps: Sequence[Step], *, approved: bool
) -> tuple[GateVerdict, dict[str, CheckState]]:
    """Evaluates each step of a gate once, in topological order, and requests checks.

    `approved` says that the users whom the gate asks have approved.
    """
    run = _StepRun(draft, context, approved)
    for step in steps:
        state = context.state.checks.get(step.name) or CheckState()
        run.states[step.name] = run.next_state(step, state)
    return _verdict(run.states), run.states


def record_answer(
    step: Step, state: CheckState, answer: CheckAnswer, reason: str, now: datetime
) -> CheckState:
    """Returns the step after an answer to its newest attempt."""
    match answer:
        case CheckAnswer.PASSED:
            return replace(state, status=GateStatus.OPEN, reason=reason, next_at=None)
        case CheckAnswer.FAILED:
            return _after_failure(step, state, reason, now)
        case CheckAnswer.UNDECIDED:
            next_at = now + timedelta(seconds=step.patience.interval_seconds)
            return replace(state, reason=reason, next_at=next_at)


@dataclass(slots=True)
class _StepRun:
    """One evaluation of the steps of a gate; `states` are those of the steps so far."""

    draft: StateDraft
    context: GateContext
    approved: bool
    states: dict[str, CheckState] = field(default_factory=dict)

    def next_state(self, step: Step, state: CheckState) -> CheckState:
        if state.status in (GateStatus.OPEN, GateStatus.CLOSED):
            return state
        missing = [name for name in step.after if self.states[name].status is not GateStatus.OPEN]
        if missing:
            return CheckState(reason=f"waiting for {', '.join(missing)}")
        if isinstance(step.rule, WaitRule):
            return self._advance_wait(state, step.rule.wait_seconds)
        if isinstance(step.rule, CheckRule):
            return self._advance_check(step, step.rule, state)
        if self.approved:
            return replace(state, status=GateStatus.OPEN, reason="approved")
        return replace(state, status=GateStatus.RUNNING, reason="waiting for approval")

    def _advance_wait(self, state: CheckState, seconds: int) -> CheckState:
        begun_at = state.begun_at or self.draft.now
        until = begun_at + timedelta(seconds=seconds)
        if self.draft.now >= until:
            return replace(state, status=GateStatus.OPEN, reason=f"waited {seconds} s")
        self.draft.wake_at(until)
        reason = f"waiting until {until:%Y-%m-%d %H:%M:%S} UTC"
        return replace(state, status=GateStatus.RUNNING, begun_at=begun_at, reason=reason)

    def _advance_check(self, step: Step, rule: CheckRule, state: CheckState) -> CheckState:
        now = self.draft.now
        if state.attempt == 0:
            return self._begin_attempt(step, rule, state)
        timeout_s = _timeout_s(step, rule)
        deadline = (state.begun_at or now) + timedelta(seconds=timeout_s)
        if not state.pausing and now >= deadline:
            last = f", last: {state.reason}" if state.reason else ""
            state = _after_failure(step, state, f"no answer within {timeout_s} s{last}", now)
        if state.status is GateStatus.CLOSED:
            return state
        if state.next_at is not None and now >= state.next_at:
            advance = self._begin_attempt if state.pausing else self._request_check
            return advance(step, rule, state)
        self.draft.wake_at(state.next_at or deadline)
        return state

    def _begin_attempt(self, step: Step, rule: CheckRule, state: CheckState) -> CheckState:
        attempt, context = state.attempt + 1, self.context
        content = fingerprint(context.render)
        place = f"{context.gate.id}/{context.release}/{context.attempt}/{content}"
        first_run = CheckState(
            GateStatus.RUNNING,
            reason=f"attempt {attempt} of {step.patience.attempts}",
            attempt=attempt,
            key=f"check/{place}/{step.name}/{attempt}",
            begun_at=self.draft.now,
        )
        return self._request_check(step, rule, first_run)

    def _request_check(self, step: Step, rule: CheckRule, state: CheckState) -> CheckState:
        context, looks = self.context, state.looks + 1
        self.draft.emit(
            RunCheck(
                key=f"{state.key}/{looks}",
                attempt_key=state.key,
                gate=context.gate.id,
                step=step.name,
                stage=context.stage,
                release=context.release,
                rule=rule,
                commits=self.draft.releases[context.release].commits,
                digests=context.digests,
                inputs=_outputs(self.states),
            )
        )
        begun_at = state.begun_at or self.draft.now
        self.draft.wake_at(begun_at + timedelta(seconds=_timeout_s(step, rule)))
        return replace(state, looks=looks, next_at=None)


def _verdict(states: Mapping[str, CheckState]) -> GateVerdict:
    """Returns the result of a gate: closed by the first step that failed for good."""
    reasons = {
        name: state.reason if name == ONLY_STEP else f"{name}: {state.reason}"
        for name, state in states.items()
    }
    for name, state in states.items():
        if state.status is GateStatus.CLOSED:
            return GateVerdict(GateStatus.CLOSED, reasons[name])
    if all(state.status is GateStatus.OPEN for state in states.values()):
        return GateVerdict(GateStatus.OPEN, "all steps passed")
    running = [
        reasons[name]
        for name, state in states.items()
        if state.status is GateStatus.RUNNING and state.reason
    ]
    return GateVerdict(GateStatus.RUNNING, "; ".join(running))


def _outputs(states: Mapping[str, CheckState]) -> dict[str, str]:
    """Returns the outputs of all steps so far, as later steps name them in templates."""
    return {
        f"steps.{name}.{key}": value
        for name, state in states.items()
        for key, value in state.outputs.items()
    }


def _after_failure(step: Step, state: CheckState, reason: str, now: datetime) -> CheckState:
    """Returns a step after a failed attempt: a pause before the next one, or a final failure."""
    if state.attempt >= step.patience.attempts:
        return replace(state, status=GateStatus.CLOSED, reason=reason, next_at=None)
    next_at = now + timedelta(seconds=step.patience.delay_after(state.attempt))
    full_reason = f"attempt {state.attempt} of {step.patience.attempts} failed: {reason}"
    return replace(state, reason=full_reason, next_at=next_at, pausing=True)


def _timeout_s(step: Step, rule: CheckRule) -> int:
    return step.patience.timeout_seconds or rule.default_timeout_s
