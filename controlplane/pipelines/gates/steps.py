"""Progress of the steps of one gate; a single check is a workflow of one step.

Pure: from the known state of each step, `evaluate_steps` derives the new state, the checks to run,
and the time of the next evaluation.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from controlplane.pipelines.gates.kinds.wait import WaitRule
from controlplane.pipelines.model.gate_checks import CheckAnswer
from controlplane.pipelines.model.gate_rules import ONLY_STEP, CheckRule, Step
from controlplane.pipelines.model.state import CheckState, GateStatus


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """A check to run. `attempt_key` is the same for all runs of one attempt."""

    key: str
    attempt_key: str
    step: Step
    inputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StepProgress:
    """The steps after an evaluation."""

    states: Mapping[str, CheckState]
    requests: tuple[CheckRequest, ...] = ()
    wakes: tuple[datetime, ...] = ()

    @property
    def failure_reason(self) -> str | None:
        """Returns the first step that failed for good, with its reason."""
        for name, state in self.states.items():
            if state.status is GateStatus.CLOSED:
                return state.reason if name == ONLY_STEP else f"{name}: {state.reason}"
        return None

    @property
    def passed(self) -> bool:
        return all(state.status is GateStatus.OPEN for state in self.states.values())

    @property
    def reason(self) -> str:
        """Returns the combined reasons of the running steps."""
        return "; ".join(
            state.reason if name == ONLY_STEP else f"{name}: {state.reason}"
            for name, state in self.states.items()
            if state.status is GateStatus.RUNNING and state.reason
        )


def evaluate_steps(
    steps: Sequence[Step],
    before: Mapping[str, CheckState],
    key_prefix: str,
    now: datetime,
    *,
    approved: bool = False,
) -> StepProgress:
    """Evaluates each step once; `key_prefix` begins the keys of the checks."""
    evaluator = _StepEvaluator(before, key_prefix, now, approved)
    for step in steps:
        evaluator.evaluate(step)
    return StepProgress(evaluator.states, tuple(evaluator.requests), tuple(evaluator.wakes))


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
class _StepEvaluator:
    before: Mapping[str, CheckState]
    base: str
    now: datetime
    approved: bool
    states: dict[str, CheckState] = field(default_factory=dict)
    requests: list[CheckRequest] = field(default_factory=list)
    wakes: list[datetime] = field(default_factory=list)

    def evaluate(self, step: Step) -> None:
        state = self.before.get(step.name) or CheckState()
        self.states[step.name] = self._next_state(step, state)

    def _next_state(self, step: Step, state: CheckState) -> CheckState:
        if state.status in (GateStatus.OPEN, GateStatus.CLOSED):
            return state
        missing = [name for name in step.after if self.states[name].status is not GateStatus.OPEN]
        if missing:
            return CheckState(reason=f"waiting for {', '.join(missing)}")
        if isinstance(step.rule, WaitRule):
            return self._advance_wait(state, step.rule.wait_seconds)
        if step.rule.asks_users:
            if self.approved:
                return replace(state, status=GateStatus.OPEN, reason="approved")
            return replace(state, status=GateStatus.RUNNING, reason="waiting for approval")
        return self._advance_check(step, state)

    def _advance_wait(self, state: CheckState, seconds: int) -> CheckState:
        begun_at = state.begun_at or self.now
        until = begun_at + timedelta(seconds=seconds)
        if self.now >= until:
            return replace(state, status=GateStatus.OPEN, reason=f"waited {seconds} s")
        self.wakes.append(until)
        reason = f"waiting until {until:%Y-%m-%d %H:%M:%S} UTC"
        return replace(state, status=GateStatus.RUNNING, begun_at=begun_at, reason=reason)

    def _advance_check(self, step: Step, state: CheckState) -> CheckState:
        if state.attempt == 0:
            return self._begin_attempt(step, state)
        if not state.pausing and self.now >= _deadline(step, state):
            reason = f"no answer within {_timeout_s(step)} s"
            last = f", last: {state.reason}" if state.reason else ""
            state = _after_failure(step, state, f"{reason}{last}", self.now)
        if state.status is GateStatus.CLOSED:
            return state
        if state.next_at is not None and self.now >= state.next_at:
            return (
                self._begin_attempt(step, state)
                if state.pausing
                else self._request_check(step, state)
            )
        self.wakes.append(state.next_at or _deadline(step, state))
        return state

    def _begin_attempt(self, step: Step, state: CheckState) -> CheckState:
        attempt = state.attempt + 1
        first_run = CheckState(
            GateStatus.RUNNING,
            reason=f"attempt {attempt} of {step.patience.attempts}",
            attempt=attempt,
            key=f"{self.base}/{step.name}/{attempt}",
            begun_at=self.now,
        )
        return self._request_check(step, first_run)

    def _request_check(self, step: Step, state: CheckState) -> CheckState:
        looks = state.looks + 1
        inputs = {
            f"steps.{name}.{key}": value
            for name, step_state in self.states.items()
            for key, value in step_state.outputs.items()
        }
        self.requests.append(CheckRequest(f"{state.key}/{looks}", state.key, step, inputs))
        self.wakes.append(_deadline(step, state))
        return replace(state, looks=looks, next_at=None)


def _after_failure(step: Step, state: CheckState, reason: str, now: datetime) -> CheckState:
    """Returns a step after a failed attempt: a pause before the next one, or a final failure."""
    if state.attempt >= step.patience.attempts:
        return replace(state, status=GateStatus.CLOSED, reason=reason, next_at=None)
    next_at = now + timedelta(seconds=step.patience.delay_after(state.attempt))
    full_reason = f"attempt {state.attempt} of {step.patience.attempts} failed: {reason}"
    return replace(state, reason=full_reason, next_at=next_at, pausing=True)


def _timeout_s(step: Step) -> int:
    if step.patience.timeout_seconds or not isinstance(step.rule, CheckRule):
        return step.patience.timeout_seconds
    return step.rule.default_timeout_s


def _deadline(step: Step, state: CheckState) -> datetime:
    return (state.begun_at or datetime.max) + timedelta(seconds=_timeout_s(step))
