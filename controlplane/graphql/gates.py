"""Gates in the API: what they ask, as it comes in and as it is shown."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any

import orjson
import strawberry

from controlplane.domain.pipelines import model
from controlplane.domain.pipelines.calendar import Calendar, Hours, Period
from controlplane.domain.pipelines.gates import asks_people
from controlplane.domain.pipelines.rules import (
    ApprovalRule,
    ExternalRule,
    GateKind,
    HttpRule,
    JobRule,
    ManualRule,
    MetricRule,
    Patience,
    Rule,
    Several,
    SoakRule,
    Step,
    StepKind,
    VersionRule,
    WaitRule,
    WindowRule,
    WorkflowRule,
    rules_of,
)
from controlplane.domain.pipelines.state import CheckState, GateState, GateStatus
from controlplane.domain.promotion import Measurement
from controlplane.graphql.context import Info
from fleet.errors import Invalid
from fleet.identity import ClusterId
from fleet.thresholds import Comparison

strawberry.enum(GateKind, name="GateType")
strawberry.enum(StepKind, name="StepType")
strawberry.enum(GateStatus, name="GateState")
strawberry.enum(Several, name="MetricSeveral")

_HIDDEN = frozenset(("kind", "sealed"))


@strawberry.type
class GateApproval:
    actor: str
    at: datetime
    comment: str


@strawberry.type
class GateOutput:
    """What a job has told: a container's last words, or a line NAME=VALUE of them."""

    name: str
    value: str


@strawberry.type
class GateMeasurement:
    """What a metric gave for a release: the first ten series, over the baseline if there is one."""

    at: datetime
    step: str
    release: int
    passed: bool
    values: list[float]

    @classmethod
    def of(cls, one: Measurement) -> "GateMeasurement":
        return cls(
            at=one.at,
            step=one.step,
            release=one.release,
            passed=one.passed,
            values=list(one.values),
        )


@strawberry.type
class GateCheck:
    """A step of a gate that asks workers; `jobId` is the job of a cluster, with its log."""

    step: str
    state: GateStatus
    reason: str
    attempt: int
    job_id: strawberry.ID | None
    outputs: list[GateOutput]

    @classmethod
    def of(cls, step: str, check: CheckState) -> "GateCheck":
        outputs = [GateOutput(name=name, value=value) for name, value in check.outputs.items()]
        job = strawberry.ID(check.job_id) if check.job_id else None
        return cls(
            step=step,
            state=check.status,
            reason=check.reason,
            attempt=check.attempt,
            job_id=job,
            outputs=outputs,
        )


@strawberry.type
class PipelineGate:
    """`digests` of the edge are what an approval is bound to.

    `settings` is what the gate asks, as JSON in the words of PipelineGateAttributes, without
    what is the default. `awaitsDecision`: it is a person's turn to approve or to reject.
    """

    id: strawberry.ID
    name: str
    type: GateKind
    state: GateStatus
    reason: str
    quorum: int | None
    not_author: bool | None
    soak_seconds: int | None
    approvals: list[GateApproval]
    skipped: str | None
    settings: str
    checks: list[GateCheck]
    awaits_decision: bool
    rule: strawberry.Private[Rule]

    @strawberry.field(description="What its metrics gave, the newest last: 240 answers at most.")
    async def measured(self, info: Info) -> list[GateMeasurement]:
        if not any(isinstance(one, MetricRule) for one in rules_of(self.rule)):
            return []
        rows = await info.context.verbs.pipelines.measured(self.id)
        return [GateMeasurement.of(one) for one in rows]

    @classmethod
    def of(cls, gate: model.Gate, state: GateState) -> "PipelineGate":
        rule = gate.rule
        approval = rule if isinstance(rule, ApprovalRule) else None
        return cls(
            id=strawberry.ID(gate.id),
            name=gate.name,
            type=gate.kind,
            state=state.status,
            reason=state.reason,
            quorum=approval.quorum if approval else None,
            not_author=approval.not_author if approval else None,
            soak_seconds=rule.seconds if isinstance(rule, SoakRule) else None,
            approvals=[
                GateApproval(actor=one.actor, at=one.at, comment=one.comment)
                for one in state.approvals
            ],
            skipped=state.skipped or None,
            settings=orjson.dumps(_settings(rule, gate.patience)).decode(),
            checks=[GateCheck.of(step, check) for step, check in state.checks.items()],
            awaits_decision=asks_people(rule, state),
            rule=rule,
        )


@strawberry.input
class GateHoursAttributes:
    """Weekdays are numbers from 0, Monday; an end not after the begin is of the next day."""

    weekdays: list[int]
    begin: time
    end: time


@strawberry.input
class GatePeriodAttributes:
    begin: datetime
    end: datetime
    reason: str = ""


@strawberry.input
class GateCalendarAttributes:
    """`zone` is an IANA name; without hours it is always open, but for holidays and freezes."""

    zone: str = "UTC"
    hours: list[GateHoursAttributes] | None = None
    holidays: list[date] | None = None
    freezes: list[GatePeriodAttributes] | None = None

    def calendar(self) -> Calendar:
        hours = tuple(Hours(tuple(one.weekdays), one.begin, one.end) for one in self.hours or ())
        freezes = tuple(Period(one.begin, one.end, one.reason) for one in self.freezes or ())
        return Calendar(self.zone, hours, tuple(self.holidays or ()), freezes)


@strawberry.input
class GateJobAttributes:
    """`manifest` is the JSON of a Job or a Pod; without a cluster that of the target's first."""

    namespace: str
    manifest: str
    cluster_id: strawberry.ID | None = None
    timeout_seconds: int = 3600

    def rule(self) -> JobRule:
        try:
            manifest = orjson.loads(self.manifest)
        except orjson.JSONDecodeError:
            raise Invalid("is not JSON", field="job.manifest") from None
        if not isinstance(manifest, dict):
            raise Invalid("is no object", field="job.manifest")
        cluster = ClusterId(self.cluster_id) if self.cluster_id else None
        return JobRule(self.namespace, manifest, cluster, self.timeout_seconds)


@strawberry.input
class GateMetricAttributes:
    """PromQL asked at `url`, or in a cluster of `service` (namespace/name:port)."""

    query: str
    threshold: float
    comparison: Comparison = Comparison.AT_MOST
    url: str = ""
    cluster_id: strawberry.ID | None = None
    service: str = ""
    baseline: str = ""
    several: Several = Several.ALL
    empty_passes: bool = False

    def rule(self) -> MetricRule:
        if self.service and not self.cluster_id:
            raise Invalid("a service is of a cluster", field="metric.clusterId")
        return MetricRule(
            query=self.query,
            threshold=self.threshold,
            comparison=self.comparison,
            url=self.url,
            cluster_id=ClusterId(self.cluster_id) if self.cluster_id else None,
            service=self.service,
            baseline=self.baseline,
            several=self.several,
            empty_passes=self.empty_passes,
        )


@strawberry.input
class GateHttpAttributes:
    """`secret` (whsec_…) signs the request as Standard Webhooks do; it is never shown again."""

    url: str
    status: int = 0
    contains: str = ""
    secret: str | None = None

    def rule(self) -> HttpRule:
        return HttpRule(self.url, self.status, self.contains, sealed=self.secret or "")


@strawberry.input
class GateVersionAttributes:
    """`range` as of npm: ^1.2, >=2 <3."""

    service: str
    range: str


@strawberry.input
class PipelineRuleAttributes:
    """What is asked, and how patiently."""

    name: str
    quorum: int | None = None
    not_author: bool | None = None
    people: list[str] | None = None
    groups: list[str] | None = None
    soak_seconds: int | None = None
    wait_seconds: int | None = None
    instructions: str = ""
    account: str = ""
    secret: str | None = None
    calendar: GateCalendarAttributes | None = None
    job: GateJobAttributes | None = None
    metric: GateMetricAttributes | None = None
    http: GateHttpAttributes | None = None
    version: GateVersionAttributes | None = None
    timeout_seconds: int = 0
    attempts: int = 1
    backoff_seconds: int = 10
    interval_seconds: int = 15

    def patience(self) -> Patience:
        return Patience(
            self.timeout_seconds, self.attempts, self.backoff_seconds, self.interval_seconds
        )

    def needed(self, name: str) -> Any:
        """A field without which this type cannot be. Invalid: it is not given."""
        value = getattr(self, name)
        if value is None:
            raise Invalid(f"this type needs {_camel(name)}", field=self.name)
        return value


@strawberry.input
class PipelineStepAttributes(PipelineRuleAttributes):
    """A step of a workflow; it begins when all of `after` have passed."""

    type: StepKind
    after: list[str] | None = None

    def step(self) -> Step:
        rule = _STEPS[self.type](self)
        return Step(self.name, rule, tuple(self.after or ()), self.patience())


@strawberry.input
class PipelineGateAttributes(PipelineRuleAttributes):
    """APPROVAL takes `quorum` (default 1), `notAuthor` (default true), `people`, `groups`.

    SOAK takes `soakSeconds`, MANUAL `instructions`, EXTERNAL `account` and, for calls that are
    signed, `secret` (whsec_…; one that was given stays), WINDOW `calendar`,
    WORKFLOW `steps`; JOB, METRIC, HTTP and VERSION what is named like them.
    """

    type: GateKind
    steps: list[PipelineStepAttributes] | None = None

    def rule(self) -> Rule:
        if self.type is GateKind.WORKFLOW:
            return WorkflowRule(tuple(one.step() for one in self.steps or ()))
        return _RULES[self.type](self)


@strawberry.input
class PipelineWorkflowAttributes:
    """The steps of a stage's own workflow; `timeoutSeconds` is for all of it, 0: no end."""

    steps: list[PipelineStepAttributes]
    timeout_seconds: int = 0

    def rule(self) -> WorkflowRule:
        return WorkflowRule(tuple(one.step() for one in self.steps))

    def patience(self) -> Patience:
        return Patience(self.timeout_seconds)


def _approval(given: PipelineRuleAttributes) -> ApprovalRule:
    quorum = 1 if given.quorum is None else given.quorum
    people, groups = tuple(given.people or ()), tuple(given.groups or ())
    return ApprovalRule(quorum, given.not_author is not False, people, groups)


def _version(given: PipelineRuleAttributes) -> VersionRule:
    version: GateVersionAttributes = given.needed("version")
    return VersionRule(version.service, version.range)


_STEPS: Mapping[StepKind, Callable[[PipelineRuleAttributes], Any]] = {
    StepKind.APPROVAL: _approval,
    StepKind.WAIT: lambda given: WaitRule(given.needed("wait_seconds")),
    StepKind.JOB: lambda given: given.needed("job").rule(),
    StepKind.METRIC: lambda given: given.needed("metric").rule(),
    StepKind.HTTP: lambda given: given.needed("http").rule(),
    StepKind.VERSION: _version,
}
_RULES: Mapping[GateKind, Callable[[PipelineRuleAttributes], Any]] = {
    GateKind.APPROVAL: _approval,
    GateKind.SOAK: lambda given: SoakRule(given.needed("soak_seconds")),
    GateKind.WINDOW: lambda given: WindowRule(given.needed("calendar").calendar()),
    GateKind.MANUAL: lambda given: ManualRule(given.instructions),
    GateKind.EXTERNAL: lambda given: ExternalRule(given.account, given.secret or ""),
    GateKind.JOB: lambda given: given.needed("job").rule(),
    GateKind.METRIC: lambda given: given.needed("metric").rule(),
    GateKind.HTTP: lambda given: given.needed("http").rule(),
    GateKind.VERSION: _version,
}
_NESTED = {
    GateKind.JOB: "job",
    GateKind.METRIC: "metric",
    GateKind.HTTP: "http",
    GateKind.VERSION: "version",
}
_RENAMED = {GateKind.SOAK: "soakSeconds", StepKind.WAIT: "waitSeconds"}


def _settings(rule: Any, patience: Patience) -> dict[str, Any]:
    """A rule in the words of its attributes."""
    return _words_of(rule) | words(patience)


def _words_of(rule: Any) -> dict[str, Any]:
    if isinstance(rule, WorkflowRule):
        return {"steps": [_step(step) for step in rule.steps]}
    if rule.kind in _RENAMED:
        return {_RENAMED[rule.kind]: rule.seconds}
    told = words(rule)
    return {_NESTED[rule.kind]: told} if rule.kind in _NESTED else told


def _step(step: Step) -> dict[str, Any]:
    after = {"after": list(step.after)} if step.after else {}
    own = {"name": step.name, "type": step.rule.kind.value}
    return {**own, **after, **_settings(step.rule, step.patience)}


def words(value: Any) -> Any:
    """A value of the domain as JSON, in camel case, without what is the default."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [words(one) for one in value]
    if not is_dataclass(value):
        return dict(value) if isinstance(value, Mapping) else value
    told = {}
    for one in fields(value):
        current = getattr(value, one.name)
        if one.name not in _HIDDEN and current != _default(one):
            told[_camel(one.name)] = words(current)
    return told


def _default(one: Any) -> Any:
    return one.default_factory() if one.default_factory is not MISSING else one.default


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
