"""Rules of pipeline gates: one rule for each kind, with its limits.

A rule holds the settings; `gates.judges` and `gates.steps` evaluate it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from semantic_version import NpmSpec, Version

from controlplane.agents.model.jobs import JobRequest
from controlplane.pipelines.model.calendar import Calendar
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.identity import ClusterId
from core.spec.thresholds import Comparison

MAX_QUORUM = 20
MAX_SOAK_SECONDS = 90 * 86_400
MAX_NAME = 255
MAX_STEPS = 50
MAX_NAMES = 100
MAX_TEXT = 10_000
MAX_ATTEMPTS = 20
MAX_BACKOFF_S = 3_600


class GateKind(StrEnum):
    """Kind of a gate. A new kind needs a rule below; see the recipe in CONTRIBUTING.md."""

    APPROVAL = "APPROVAL"
    """A quorum of users approves."""
    SOAK = "SOAK"
    """The source stage stays healthy for some time."""
    WINDOW = "WINDOW"
    """The calendar is open."""
    JOB = "JOB"
    """A Job or Pod in a cluster succeeds."""
    METRIC = "METRIC"
    """A PromQL query meets its threshold."""
    HTTP = "HTTP"
    """An HTTP endpoint returns success."""
    VERSION = "VERSION"
    """Another service is healthy with a version in a range."""
    MANUAL = "MANUAL"
    """A person confirms that the source stage is verified."""
    EXTERNAL = "EXTERNAL"
    """An external program reports the result."""
    WORKFLOW = "WORKFLOW"
    """A graph of steps passes."""


class StepKind(StrEnum):
    """Kind of a workflow step. WAIT exists only here; gates use SOAK instead."""

    APPROVAL = "APPROVAL"
    """A quorum of users approves."""
    JOB = "JOB"
    """A Job or Pod in a cluster succeeds."""
    METRIC = "METRIC"
    """A PromQL query meets its threshold."""
    HTTP = "HTTP"
    """An HTTP endpoint returns success."""
    VERSION = "VERSION"
    """Another service is healthy with a version in a range."""
    WAIT = "WAIT"
    """A fixed time passes. Gates use SOAK instead."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """Users decide: `quorum` different users; by default the release's author does not count.

    With `people` (e-mail addresses) or `groups` (names), only these users.
    """

    quorum: int = 1
    not_author: bool = True
    people: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    kind: Literal[GateKind.APPROVAL] = GateKind.APPROVAL

    def check(self, field: str) -> None:
        if not 1 <= self.quorum <= MAX_QUORUM:
            raise Invalid(f"must be 1 to {MAX_QUORUM} approvals", field=f"{field}.quorum")
        _check_names(self.people, f"{field}.people")
        _check_names(self.groups, f"{field}.groups")
        if self.people and not self.groups and self.quorum > len(set(self.people)):
            raise Invalid(
                f"{self.quorum} approvals of {len(set(self.people))} people",
                field=f"{field}.quorum",
            )


@dataclass(frozen=True, slots=True)
class SoakRule:
    """Time decides: the source stage must be healthy with the release for `seconds` without
    interruption.
    """

    seconds: int
    kind: Literal[GateKind.SOAK] = GateKind.SOAK

    def check(self, field: str) -> None:
        _check_seconds(self.seconds, f"{field}.seconds")


@dataclass(frozen=True, slots=True)
class WindowRule:
    """The calendar decides: releases pass while it is open."""

    calendar: Calendar
    kind: Literal[GateKind.WINDOW] = GateKind.WINDOW

    def check(self, field: str) -> None:
        self.calendar.check(field)


@dataclass(frozen=True, slots=True)
class ManualRule:
    """A user with the approve permission confirms that they verified the source stage."""

    instructions: str = ""
    kind: Literal[GateKind.MANUAL] = GateKind.MANUAL

    def check(self, field: str) -> None:
        _check_length(self.instructions, f"{field}.instructions")


@dataclass(frozen=True, slots=True)
class ExternalRule:
    """An external program answers with a token of `account` (the account's e-mail address).

    Alternatively it signs its calls: `sealed` is the encrypted signing secret.
    """

    account: str
    sealed: str = field(default="", repr=False)
    kind: Literal[GateKind.EXTERNAL] = GateKind.EXTERNAL

    def check(self, field: str) -> None:
        check_text(self.account, f"{field}.account", MAX_NAME)


@dataclass(frozen=True, slots=True)
class JobRule:
    """A Job or Pod decides; the agent of a cluster runs it once.

    `cluster_id` defaults to the cluster of the target stage's first service. Texts of the manifest
    may contain `${release}`, `${commit}`, `${stage}` and `${steps.NAME.OUTPUT}`.
    """

    namespace: str
    manifest: Mapping[str, Any]
    cluster_id: ClusterId | None = None
    timeout_seconds: int = 3_600
    kind: Literal[GateKind.JOB] = GateKind.JOB

    def check(self, field: str) -> None:
        try:
            JobRequest(self.namespace, self.manifest, self.timeout_seconds).check()
        except Invalid as error:
            raise Invalid(error.message, field=f"{field}.{error.field}") from None


class SeriesPolicy(StrEnum):
    """Handling of several series: all must pass, one is enough, or it is an error."""

    ALL = "ALL"
    """Every series must pass."""
    ANY = "ANY"
    """One series that passes is enough."""
    ERROR = "ERROR"
    """More than one series is an error."""


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A number decides: a PromQL query to a Prometheus.

    The Prometheus is at `url`, or is a Service `namespace/name:port` that the agent of `cluster_id`
    queries. With a `baseline` query, the ratio of value and baseline is compared instead. Without
    samples the result is FAILED unless `empty_passes`. NaN always fails.
    """

    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST
    url: str = ""
    cluster_id: ClusterId | None = None
    service: str = ""
    baseline: str = ""
    several: SeriesPolicy = SeriesPolicy.ALL
    empty_passes: bool = False
    kind: Literal[GateKind.METRIC] = GateKind.METRIC

    def check(self, field: str) -> None:
        check_text(self.query, f"{field}.query", MAX_TEXT)
        _check_length(self.baseline, f"{field}.baseline")
        if bool(self.url) == bool(self.service):
            raise Invalid("needs either url, or cluster and service", field=f"{field}.url")
        if self.url:
            _check_url(self.url, f"{field}.url")
        else:
            service_address(self.service, f"{field}.service")


@dataclass(frozen=True, slots=True)
class HttpRule:
    """An HTTP answer decides: a signed POST that describes the promotion.

    Passes with a status in 200–299 (`status`: exactly this one) and, if given, `contains` in the
    body. 202, 409, 425, 429 and 503 mean not yet. `sealed` is the encrypted signing secret.
    """

    url: str
    status: int = 0
    contains: str = ""
    sealed: str = field(default="", repr=False)
    kind: Literal[GateKind.HTTP] = GateKind.HTTP

    def check(self, field: str) -> None:
        _check_url(self.url, f"{field}.url")
        _check_length(self.contains, f"{field}.contains")
        if self.status and not 200 <= self.status <= 599:
            raise Invalid("must be a status from 200 to 599", field=f"{field}.status")


@dataclass(frozen=True, slots=True)
class VersionRule:
    """Another service decides: `service` must be healthy with a version in `range` (npm syntax).

    It is searched among the services on the clusters of the target stage.
    """

    service: str
    range: str
    kind: Literal[GateKind.VERSION] = GateKind.VERSION

    def check(self, field: str) -> None:
        check_text(self.service, f"{field}.service", MAX_NAME)
        check_text(self.range, f"{field}.range", MAX_NAME)
        try:
            NpmSpec(self.range)
        except ValueError:
            raise Invalid("must be a version range such as ^1.2", field=f"{field}.range") from None

    def holds(self, version: str) -> bool:
        """Returns whether a version is in the range; text that is not a version is not."""
        try:
            return Version(version.removeprefix("v")) in NpmSpec(self.range)
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class WaitRule:
    """A pause between two steps."""

    seconds: int
    kind: Literal[StepKind.WAIT] = StepKind.WAIT

    def check(self, field: str) -> None:
        _check_seconds(self.seconds, f"{field}.seconds")


CheckRule = JobRule | MetricRule | HttpRule | VersionRule
"""Rules that a worker checks."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Timeout, attempts and intervals of a check.

    The pause after an attempt doubles, up to one hour. `interval_seconds` lies between two runs of
    an undecided check. `timeout_seconds` 0: one hour for a check, no limit for decisions by people
    and calendars.
    """

    timeout_seconds: int = 0
    attempts: int = 1
    backoff_seconds: int = 10
    interval_seconds: int = 15

    def delay_after(self, attempt: int) -> int:
        """Returns the seconds between this attempt and the next."""
        return min(self.backoff_seconds * 2 ** (attempt - 1), MAX_BACKOFF_S)

    def check(self, field: str) -> None:
        if not 0 <= self.timeout_seconds <= MAX_SOAK_SECONDS:
            raise Invalid(
                f"must be 0 to {MAX_SOAK_SECONDS:,} seconds", field=f"{field}.timeoutSeconds"
            )
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise Invalid(f"must be 1 to {MAX_ATTEMPTS} attempts", field=f"{field}.attempts")
        for name, value in (("backoff", self.backoff_seconds), ("interval", self.interval_seconds)):
            if not 1 <= value <= MAX_BACKOFF_S:
                raise Invalid(
                    f"must be 1 to {MAX_BACKOFF_S:,} seconds", field=f"{field}.{name}Seconds"
                )


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a workflow; it begins when all of `after` have passed."""

    name: str
    rule: CheckRule | WaitRule | ApprovalRule
    after: tuple[str, ...] = ()
    patience: Patience = field(default_factory=Patience)


@dataclass(frozen=True, slots=True)
class WorkflowRule:
    """A graph of steps decides: all must pass. At most one of them requires approval."""

    steps: tuple[Step, ...]
    kind: Literal[GateKind.WORKFLOW] = GateKind.WORKFLOW

    def check(self, field: str) -> None:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise Invalid(f"must have 1 to {MAX_STEPS} steps", field=f"{field}.steps")
        names = [step.name for step in self.steps]
        if len(set(names)) < len(names):
            raise Invalid("step names must be unique", field=f"{field}.steps")
        for number, step in enumerate(self.steps):
            _check_step(step, names, f"{field}.steps[{number}]")
        if sum(isinstance(step.rule, ApprovalRule) for step in self.steps) > 1:
            raise Invalid("only one step can require approval", field=f"{field}.steps")
        sort_steps(self.steps)


Rule = (
    ApprovalRule
    | SoakRule
    | WindowRule
    | ManualRule
    | ExternalRule
    | JobRule
    | MetricRule
    | HttpRule
    | VersionRule
    | WorkflowRule
)


def sort_steps(steps: Sequence[Step]) -> list[Step]:
    """Returns the steps in topological order. Raises Invalid, naming the cycle."""
    by_name = {step.name: step for step in steps}
    try:
        names = TopologicalSorter({step.name: step.after for step in steps}).static_order()
        return [by_name[name] for name in names]
    except CycleError as error:
        cycle = " → ".join(reversed(error.args[1]))
        raise Invalid(f"steps wait for each other: {cycle}", field="steps") from None


def service_address(text: str, field: str = "service") -> tuple[str, str, str]:
    """Splits `namespace/name:port`. Raises Invalid for anything else."""
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    parts = (namespace, name, port)
    if not all(part and part.replace("-", "").isalnum() and len(part) <= 63 for part in parts):
        raise Invalid("must be like monitoring/prometheus:9090", field=field)
    return parts


def rules_of(rule: Rule) -> Sequence[object]:
    """Returns a gate's rule, or those of its steps."""
    return [step.rule for step in rule.steps] if isinstance(rule, WorkflowRule) else [rule]


def job_rules(rule: Rule) -> list[JobRule]:
    """Returns the jobs that a gate may run."""
    return [job for job in rules_of(rule) if isinstance(job, JobRule)]


def approval_of(rule: Rule) -> ApprovalRule | None:
    """Returns a gate's approval rule, if it asks for approvals."""
    if isinstance(rule, WorkflowRule):
        found = [step.rule for step in rule.steps if isinstance(step.rule, ApprovalRule)]
        return found[0] if found else None
    return rule if isinstance(rule, ApprovalRule) else None


def _check_step(step: Step, names: Sequence[str], field: str) -> None:
    check_text(step.name, f"{field}.name", 63)
    if not step.name.replace("-", "").replace("_", "").isalnum():
        raise Invalid("must consist of letters, digits, - and _", field=f"{field}.name")
    if strange := [name for name in step.after if name not in names]:
        raise Invalid(f"step {strange[0]} does not exist", field=f"{field}.after")
    step.rule.check(field)
    step.patience.check(field)


def _check_names(names: Sequence[str], field: str) -> None:
    if len(names) > MAX_NAMES:
        raise Invalid(f"{len(names)} names, maximum {MAX_NAMES}", field=field)
    for name in names:
        check_text(name, field, MAX_NAME)


def _check_seconds(seconds: int, field: str) -> None:
    if not 1 <= seconds <= MAX_SOAK_SECONDS:
        raise Invalid(f"must be 1 to {MAX_SOAK_SECONDS:,} seconds", field=field)


def _check_length(text: str, field: str) -> None:
    if len(text) > MAX_TEXT:
        raise Invalid(f"must be at most {MAX_TEXT:,} characters", field=field)


def _check_url(url: str, field: str) -> None:
    check_text(url, field, 2_000)
    if not url.startswith(("https://", "http://")):
        raise Invalid("must be an http or https URL", field=field)
