"""Base classes of gate kinds, and the values that they share.

A kind is a frozen dataclass of its settings in `gates.kinds`, with its decision. The store keeps a
rule as JSON with its kind.
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Annotated, ClassVar, NamedTuple

from controlplane.authorization import Verb
from controlplane.pipelines.model.gate_checks import CheckContext, CheckFinding, StartedJob
from controlplane.pipelines.model.state import Approval, Digests, GateState, GateStatus, StageState
from controlplane.platform.plugin_settings import Form, Plugin, Setting, check_limits
from core.identity import ClusterId

MAX_GATE_SECONDS = 90 * 86_400
MAX_ATTEMPTS = 20
MAX_BACKOFF_S = 3_600
MAX_ATTEMPT_S = 3_600
ONLY_STEP = "check"
"""Name of the only step of a gate with a single check."""
WORKFLOW = "WORKFLOW"
"""Kind of gate that a stage can have."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeout, attempts and intervals of a check."""

    timeout_seconds: Annotated[
        int, Setting("Timeout", minimum=0, maximum=MAX_GATE_SECONDS, unit="seconds")
    ] = 0
    """Timeout of one attempt in seconds. Default: 0, one hour for checks and none for other
    gates. Limit: 7,776,000."""
    attempts: Annotated[
        int, Setting("Attempts", minimum=1, maximum=MAX_ATTEMPTS, unit="attempts")
    ] = 1
    """Maximum number of attempts. Default: 1. Limit: 20."""
    backoff_seconds: Annotated[
        int, Setting("Backoff", minimum=1, maximum=MAX_BACKOFF_S, unit="seconds")
    ] = 10
    """Seconds before the second attempt. Doubles with each attempt, up to 3,600. Default: 10.
    Limit: 3,600."""
    interval_seconds: Annotated[
        int, Setting("Interval", minimum=1, maximum=MAX_BACKOFF_S, unit="seconds")
    ] = 15
    """Seconds between two polls of an undecided check. Default: 15. Limit: 3,600."""

    def delay_after(self, attempt: int) -> int:
        """Returns the seconds between this attempt and the next."""
        return min(self.backoff_seconds * 2 ** (attempt - 1), MAX_BACKOFF_S)

    def check(self, field: str) -> None:
        check_limits(self, field)


@dataclass(frozen=True, slots=True)
class GateInputs:
    """Inputs of a gate's decision; `digests` would enter the stage after the gate."""

    source: StageState
    digests: Digests
    approvals: tuple[Approval, ...]
    now: datetime

    @property
    def valid_approvals(self) -> list[Approval]:
        """The approvals of exactly these digests."""
        return [approval for approval in self.approvals if approval.digests == self.digests]


@dataclass(frozen=True, slots=True)
class GateVerdict:
    """Result of a gate; `wake` is when it may change without an event."""

    status: GateStatus
    reason: str
    wake: datetime | None = None


class ClusterAccess(NamedTuple):
    """Permission that a rule needs on a cluster. None: on each cluster of the target stage."""

    verb: Verb
    cluster_id: ClusterId | None


class GateRule(Plugin):
    """Settings of one kind of gate or workflow step, and its decision."""

    family = "gate"
    in_gates: ClassVar[bool] = True
    in_workflows: ClassVar[bool] = False
    asks_users: ClassVar[bool] = False
    """True if users approve and reject."""

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        """Decides a gate whose source stage is healthy with the release."""
        raise TypeError(f"a {self.kind} gate is decided by its steps")

    def steps_with(self, patience: Patience) -> Sequence["Step"]:
        """Returns the steps that decide, in topological order; empty: `evaluate` decides."""
        return ()

    def leaf_rules(self) -> Sequence["GateRule"]:
        """Returns the rule, or the rules of its steps."""
        return (self,)

    def cluster_access(self) -> ClusterAccess | None:
        """Returns the permission on a cluster that saving this rule needs."""
        return None


class CheckRule(GateRule, ABC):
    """A kind of gate that a worker checks."""

    in_workflows = True

    @abstractmethod
    async def run(self, context: CheckContext) -> CheckFinding | StartedJob:
        """Runs the check once. A repeated run changes nothing."""

    @property
    def default_timeout_s(self) -> int:
        """Timeout of an attempt without `timeout_seconds`."""
        return MAX_ATTEMPT_S

    def steps_with(self, patience: Patience) -> Sequence["Step"]:
        return (Step(ONLY_STEP, self, patience=patience),)


@dataclass(frozen=True)
class SignedRule(GateRule, ABC):
    """A kind of gate with a signing secret, which is encrypted in `sealed`."""

    sealed: Annotated[str, Setting("Signing secret", name="secret", form=Form.SECRET)] = field(
        default="", repr=False, kw_only=True
    )
    """Signing secret `whsec_…` (Standard Webhooks). Never returned. Null keeps the current one."""

    @property
    @abstractmethod
    def receiver(self) -> str:
        """The peer that knows the secret. A secret is never used for another one."""


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow; it begins when all of `after` have passed."""

    name: str
    rule: GateRule
    after: tuple[str, ...] = ()
    patience: Patience = field(default_factory=Patience)


def needs_approval(rule: GateRule, state: GateState) -> bool:
    """Returns whether users decide now; in a workflow, once the preceding steps have passed."""
    if state.status is not GateStatus.RUNNING:
        return False
    if rule.asks_users:
        return True
    names = {step.name for step in rule.steps_with(Patience()) if step.rule.asks_users}
    return any(
        state.checks[name].status is GateStatus.RUNNING for name in names & set(state.checks)
    )
