"""What the gates of a pipeline ask: one rule for each kind, with its bounds.

A rule says what is asked; `gates` and `checks` judge the answers.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from semantic_version import NpmSpec, Version

from controlplane.domain.clusterjobs import JobRequest
from controlplane.domain.names import check_text
from controlplane.domain.pipelines.calendar import Calendar
from fleet.errors import Invalid
from fleet.identity import ClusterId
from fleet.thresholds import Comparison

MAX_QUORUM = 20
MAX_SOAK_SECONDS = 90 * 86_400
MAX_NAME = 255
MAX_STEPS = 50
MAX_NAMES = 100
MAX_TEXT = 10_000
MAX_ATTEMPTS = 20
LONGEST_BACKOFF = 3_600


class GateKind(StrEnum):
    """Kind of a gate. A new kind needs a rule below and a judge in `gates` or `checks`."""

    APPROVAL = "APPROVAL"
    """A quorum of people approves."""
    SOAK = "SOAK"
    """The source stage stays healthy for some time."""
    WINDOW = "WINDOW"
    """The calendar is open."""
    JOB = "JOB"
    """A Job or Pod in a cluster succeeds."""
    METRIC = "METRIC"
    """A PromQL query meets its threshold."""
    HTTP = "HTTP"
    """An HTTP endpoint answers with success."""
    VERSION = "VERSION"
    """Another service is healthy with a version in a range."""
    MANUAL = "MANUAL"
    """A person confirms that the source stage is verified."""
    EXTERNAL = "EXTERNAL"
    """An external program answers."""
    WORKFLOW = "WORKFLOW"
    """A graph of steps passes."""


class StepKind(StrEnum):
    """Kind of a workflow step. WAIT exists only here; gates use SOAK instead."""

    APPROVAL = "APPROVAL"
    """A quorum of people approves."""
    JOB = "JOB"
    """A Job or Pod in a cluster succeeds."""
    METRIC = "METRIC"
    """A PromQL query meets its threshold."""
    HTTP = "HTTP"
    """An HTTP endpoint answers with success."""
    VERSION = "VERSION"
    """Another service is healthy with a version in a range."""
    WAIT = "WAIT"
    """A fixed time passes. Gates use SOAK instead."""


@dataclass(frozen=True, slots=True)
class ApprovalRule:
    """People decide: `quorum` different ones, the release's author not among them by default.

    With `people` (mail addresses) or `groups` (names), only these.
    """

    quorum: int = 1
    not_author: bool = True
    people: tuple[str, ...] = ()
    groups: tuple[str, ...] = ()
    kind: Literal[GateKind.APPROVAL] = GateKind.APPROVAL

    def check(self, field: str) -> None:
        if not 1 <= self.quorum <= MAX_QUORUM:
            raise Invalid(f"between 1 and {MAX_QUORUM} approvals", field=f"{field}.quorum")
        _check_names(self.people, f"{field}.people")
        _check_names(self.groups, f"{field}.groups")
        if self.people and not self.groups and self.quorum > len(set(self.people)):
            raise Invalid(
                f"{self.quorum} approvals of {len(set(self.people))} people",
                field=f"{field}.quorum",
            )


@dataclass(frozen=True, slots=True)
class SoakRule:
    """Time decides: the source stage has been healthy with the release for `seconds` on end."""

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
    """Somebody with the right to approve tells that they have verified the source stage."""

    instructions: str = ""
    kind: Literal[GateKind.MANUAL] = GateKind.MANUAL

    def check(self, field: str) -> None:
        _check_length(self.instructions, f"{field}.instructions")


@dataclass(frozen=True, slots=True)
class ExternalRule:
    """Somebody else's program answers, with a token of `account` (the mail of an account).

    Or by calls that it signs: `sealed` is the secret for these, encrypted.
    """

    account: str
    sealed: str = field(default="", repr=False)
    kind: Literal[GateKind.EXTERNAL] = GateKind.EXTERNAL

    def check(self, field: str) -> None:
        check_text(self.account, f"{field}.account", MAX_NAME)


@dataclass(frozen=True, slots=True)
class JobRule:
    """A Job or Pod decides, run once by the agent of a cluster.

    `cluster_id`: without it the cluster of the target stage's first service. Texts of the
    manifest may hold `${release}`, `${commit}`, `${stage}` and `${steps.NAME.OUTPUT}`.
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


class Several(StrEnum):
    """Handling of several series: all must pass, one is enough, or it is an error."""

    ALL = "ALL"
    """Every series must pass."""
    ANY = "ANY"
    """One series that passes is enough."""
    ERROR = "ERROR"
    """More than one series is an error."""


@dataclass(frozen=True, slots=True)
class MetricRule:
    """A number decides: PromQL asked of a Prometheus.

    Where: `url`; or, by the agent of `cluster_id`, a Service as `namespace/name:port`. With a
    `baseline` query the value divided by the baseline's is compared instead. No sample: FAILED
    unless `empty_passes`. NaN always fails.
    """

    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST
    url: str = ""
    cluster_id: ClusterId | None = None
    service: str = ""
    baseline: str = ""
    several: Several = Several.ALL
    empty_passes: bool = False
    kind: Literal[GateKind.METRIC] = GateKind.METRIC

    def check(self, field: str) -> None:
        check_text(self.query, f"{field}.query", MAX_TEXT)
        _check_length(self.baseline, f"{field}.baseline")
        if bool(self.url) == bool(self.service):
            raise Invalid("either a url, or a service of a cluster", field=f"{field}.url")
        if self.url:
            _check_url(self.url, f"{field}.url")
        else:
            service_address(self.service, f"{field}.service")


@dataclass(frozen=True, slots=True)
class HttpRule:
    """An answer over HTTP decides: a signed POST of what is to be promoted.

    Passes with a status in 200–299 (`status`: exactly this one) and, if given, `contains` in the
    body. 202, 409, 425, 429 and 503 mean not yet. `sealed` is the signing secret, encrypted.
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
            raise Invalid("a status between 200 and 599", field=f"{field}.status")


@dataclass(frozen=True, slots=True)
class VersionRule:
    """Another service decides: `service` is healthy with a version in `range` (as of npm).

    It is looked for among the services of the clusters of the target stage.
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
            raise Invalid("no range of versions like ^1.2", field=f"{field}.range") from None

    def holds(self, version: str) -> bool:
        """Whether a version is in the range; what is no version is not."""
        try:
            return Version(version.removeprefix("v")) in NpmSpec(self.range)
        except ValueError:
            return False


@dataclass(frozen=True, slots=True)
class WaitRule:
    """Time passes between two steps."""

    seconds: int
    kind: Literal[StepKind.WAIT] = StepKind.WAIT

    def check(self, field: str) -> None:
        _check_seconds(self.seconds, f"{field}.seconds")


CheckRule = JobRule | MetricRule | HttpRule | VersionRule
"""What a worker finds out."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long one attempt may take, how many there are, and the pause before the second.

    The pause doubles from attempt to attempt, to an hour at most. `interval_seconds` lies between
    two looks at what is not decided yet. `timeout_seconds` 0: an hour for a check, no end for
    what people and calendars decide.
    """

    timeout_seconds: int = 0
    attempts: int = 1
    backoff_seconds: int = 10
    interval_seconds: int = 15

    def pause_after(self, attempt: int) -> int:
        """Seconds between this attempt and the next."""
        return min(self.backoff_seconds * 2 ** (attempt - 1), LONGEST_BACKOFF)

    def check(self, field: str) -> None:
        if not 0 <= self.timeout_seconds <= MAX_SOAK_SECONDS:
            raise Invalid(f"0 to {MAX_SOAK_SECONDS:,} seconds", field=f"{field}.timeoutSeconds")
        if not 1 <= self.attempts <= MAX_ATTEMPTS:
            raise Invalid(f"between 1 and {MAX_ATTEMPTS} attempts", field=f"{field}.attempts")
        for name, value in (("backoff", self.backoff_seconds), ("interval", self.interval_seconds)):
            if not 1 <= value <= LONGEST_BACKOFF:
                raise Invalid(
                    f"between 1 and {LONGEST_BACKOFF:,} seconds", field=f"{field}.{name}Seconds"
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
    """A graph of steps decides: all must pass. At most one of them asks people."""

    steps: tuple[Step, ...]
    kind: Literal[GateKind.WORKFLOW] = GateKind.WORKFLOW

    def check(self, field: str) -> None:
        if not 1 <= len(self.steps) <= MAX_STEPS:
            raise Invalid(f"between 1 and {MAX_STEPS} steps", field=f"{field}.steps")
        names = [step.name for step in self.steps]
        if len(set(names)) < len(names):
            raise Invalid("two steps have one name", field=f"{field}.steps")
        for number, step in enumerate(self.steps):
            _check_step(step, names, f"{field}.steps[{number}]")
        if sum(isinstance(step.rule, ApprovalRule) for step in self.steps) > 1:
            raise Invalid("only one step may ask people", field=f"{field}.steps")
        in_order(self.steps)


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


def in_order(steps: Sequence[Step]) -> list[Step]:
    """The steps, each after all that it waits for. Invalid: they form a cycle, which is named."""
    by_name = {step.name: step for step in steps}
    try:
        names = TopologicalSorter({step.name: step.after for step in steps}).static_order()
        return [by_name[name] for name in names]
    except CycleError as error:
        cycle = " → ".join(reversed(error.args[1]))
        raise Invalid(f"steps wait for each other: {cycle}", field="steps") from None


def service_address(text: str, field: str = "service") -> tuple[str, str, str]:
    """Namespace, name and port of `namespace/name:port`. Invalid: anything else."""
    namespace, _, rest = text.partition("/")
    name, _, port = rest.partition(":")
    parts = (namespace, name, port)
    if not all(part and part.replace("-", "").isalnum() and len(part) <= 63 for part in parts):
        raise Invalid("not like monitoring/prometheus:9090", field=field)
    return parts


def rules_of(rule: Rule) -> Sequence[object]:
    """A gate's rule, or those of its steps."""
    return [step.rule for step in rule.steps] if isinstance(rule, WorkflowRule) else [rule]


def job_rules(rule: Rule) -> list[JobRule]:
    """The jobs that a gate may run."""
    return [one for one in rules_of(rule) if isinstance(one, JobRule)]


def approval_of(rule: Rule) -> ApprovalRule | None:
    """How a gate asks people, if it does so by quorum."""
    if isinstance(rule, WorkflowRule):
        found = [step.rule for step in rule.steps if isinstance(step.rule, ApprovalRule)]
        return found[0] if found else None
    return rule if isinstance(rule, ApprovalRule) else None


def _check_step(step: Step, names: Sequence[str], field: str) -> None:
    check_text(step.name, f"{field}.name", 63)
    if not step.name.replace("-", "").replace("_", "").isalnum():
        raise Invalid("letters, digits, - and _ only", field=f"{field}.name")
    if strange := [one for one in step.after if one not in names]:
        raise Invalid(f"there is no step {strange[0]}", field=f"{field}.after")
    step.rule.check(field)
    step.patience.check(field)


def _check_names(names: Sequence[str], field: str) -> None:
    if len(names) > MAX_NAMES:
        raise Invalid(f"{len(names)} names, {MAX_NAMES} at most", field=field)
    for name in names:
        check_text(name, field, MAX_NAME)


def _check_seconds(seconds: int, field: str) -> None:
    if not 1 <= seconds <= MAX_SOAK_SECONDS:
        raise Invalid(f"between 1 and {MAX_SOAK_SECONDS:,} seconds", field=field)


def _check_length(text: str, field: str) -> None:
    if len(text) > MAX_TEXT:
        raise Invalid(f"longer than {MAX_TEXT:,} characters", field=field)


def _check_url(url: str, field: str) -> None:
    check_text(url, field, 2_000)
    if not url.startswith(("https://", "http://")):
        raise Invalid("neither an http nor an https URL", field=field)
