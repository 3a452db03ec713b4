"""Gates in the API: inputs, settings and state."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, fields, is_dataclass
from datetime import date, datetime, time
from enum import StrEnum
from typing import Any

import orjson
import strawberry

from controlplane.pipelines.gates.judges import needs_approval
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.calendar import Calendar, FreezePeriod, OpeningHours
from controlplane.pipelines.model.gate_rules import (
    ApprovalRule,
    ExternalRule,
    GateKind,
    HttpRule,
    JobRule,
    ManualRule,
    MetricRule,
    Patience,
    Rule,
    SeriesPolicy,
    SoakRule,
    Step,
    StepKind,
    VersionRule,
    WaitRule,
    WindowRule,
    WorkflowRule,
    rules_of,
)
from controlplane.pipelines.model.records import Measurement
from controlplane.pipelines.model.state import CheckState, GateState, GateStatus
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.graphql.context import Info
from core.errors import Invalid
from core.identity import ClusterId
from core.spec.thresholds import Comparison

strawberry.enum(GateKind, name="GateType", description="Kind of a gate.")
strawberry.enum(StepKind, name="StepType", description="Kind of a workflow step.")
strawberry.enum(
    GateStatus, name="GateState", description="State of a gate or of an automated check."
)
strawberry.enum(SeriesPolicy, name="MetricSeveral")

_HIDDEN = frozenset(("kind", "sealed"))


@strawberry.type
class GateApproval:
    """Approval of a release at a gate."""

    actor: str
    """E-mail address of the approver."""
    at: datetime
    """Time of the approval."""
    comment: str
    """Comment of the approver."""


@strawberry.type
class GateOutput:
    """Output of a job: a termination message, or a line `NAME=VALUE` of it."""

    name: str
    """Name of the container or of the value."""
    value: str
    """Text of the output."""


@strawberry.type
class GateMeasurement:
    """Result of a metric query for a release."""

    at: datetime
    """Time of the query."""
    step: str
    """Name of the gate or of its step."""
    release: int
    """Number of the release. 0 for a release that no longer exists."""
    passed: bool
    """True if the values met the threshold."""
    values: list[float]
    """Values of the first ten series, divided by the baseline if there is one."""

    @classmethod
    def of(cls, measurement: Measurement) -> "GateMeasurement":
        return cls(
            at=measurement.at,
            step=measurement.step,
            release=measurement.release,
            passed=measurement.passed,
            values=list(measurement.values),
        )


@strawberry.type
class GateCheck:
    """State of an automated check of a gate."""

    step: str
    """Name of the gate or of its step."""
    state: GateStatus
    """State of the check."""
    reason: str
    """Reason of the state."""
    attempt: int
    """Number of the current attempt, from 1."""
    job_id: strawberry.ID | None
    """ID of the cluster job. Null for other checks."""
    outputs: list[GateOutput]
    """Outputs of the job. Limit: 64."""

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
class PipelineGateType:
    """A gate before a stage, or the workflow of a stage, with its state for the current release."""

    id: strawberry.ID
    name: str
    """Name of the gate."""
    type: GateKind
    """Kind of gate."""
    state: GateStatus
    """State of the gate for the current release."""
    reason: str
    """Reason of the state."""
    quorum: int | None
    """Number of required approvals. Null for other kinds of gates."""
    not_author: bool | None
    """True if the author of the release may not approve. Null for other kinds of gates."""
    soak_seconds: int | None
    """Soak time in seconds. Null for other kinds of gates."""
    approvals: list[GateApproval]
    """Approvals of the current release."""
    skipped: str | None
    """User and reason if the gate was skipped. Null otherwise."""
    settings: str
    """Settings as JSON with the field names of `PipelineGateAttributes`, without defaults."""
    checks: list[GateCheck]
    """State of each automated check."""
    awaits_decision: bool
    """True if a person can approve or reject now."""
    rule: strawberry.Private[Rule]

    @strawberry.field
    async def measured(self, info: Info) -> list[GateMeasurement]:
        """Results of metric queries, newest last. Limit: 240."""
        if not any(isinstance(rule, MetricRule) for rule in rules_of(self.rule)):
            return []
        rows = await info.context[Pipelines].measured(self.id)
        return [GateMeasurement.of(row) for row in rows]

    @classmethod
    def of(cls, gate: pipeline.Gate, state: GateState) -> "PipelineGateType":
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
                GateApproval(actor=approval.actor, at=approval.at, comment=approval.comment)
                for approval in state.approvals
            ],
            skipped=state.skipped or None,
            settings=orjson.dumps(_settings(rule, gate.patience)).decode(),
            checks=[GateCheck.of(step, check) for step, check in state.checks.items()],
            awaits_decision=needs_approval(rule, state),
            rule=rule,
        )


@strawberry.input
class GateHoursAttributes:
    """A daily time window on some weekdays."""

    weekdays: list[int]
    """Weekdays as numbers from 0 (Monday) to 6 (Sunday)."""
    begin: time
    """Start of the window in local time."""
    end: time
    """End of the window in local time. An end before or at the start means the next day."""


@strawberry.input
class GatePeriodAttributes:
    """A period without releases."""

    begin: datetime
    """Start of the period."""
    end: datetime
    """End of the period."""
    reason: str = ""
    """Reason shown to users. Default: none."""


@strawberry.input
class GateCalendarAttributes:
    """A calendar of release windows."""

    zone: str = "UTC"
    """IANA time zone, such as `Europe/Berlin`. Default: `UTC`."""
    hours: list[GateHoursAttributes] | None = None
    """Windows in which releases pass. Default: always. Limit: 50."""
    holidays: list[date] | None = None
    """Dates without releases. Limit: 1,000."""
    freezes: list[GatePeriodAttributes] | None = None
    """Periods without releases. Limit: 1,000."""

    def calendar(self) -> Calendar:
        hours = tuple(
            OpeningHours(tuple(window.weekdays), window.begin, window.end)
            for window in self.hours or ()
        )
        freezes = tuple(
            FreezePeriod(freeze.begin, freeze.end, freeze.reason) for freeze in self.freezes or ()
        )
        return Calendar(self.zone, hours, tuple(self.holidays or ()), freezes)


@strawberry.input
class GateJobAttributes:
    """A job that decides at a gate."""

    namespace: str
    """Namespace of the job."""
    manifest: str
    """JSON of a `batch/v1` Job or a `v1` Pod, which may contain `${release}`, `${commit}`,
    `${stage}` and `${steps.NAME.OUTPUT}`. Limit: 512 KiB."""
    cluster_id: strawberry.ID | None = None
    """ID of the cluster. Default: the cluster of the target stage's first service."""
    timeout_seconds: int = 3600
    """Timeout in seconds. Default: 3,600. Limit: 604,800."""

    def rule(self) -> JobRule:
        try:
            manifest = orjson.loads(self.manifest)
        except orjson.JSONDecodeError:
            raise Invalid("is not valid JSON", field="job.manifest") from None
        if not isinstance(manifest, dict):
            raise Invalid("must be a JSON object", field="job.manifest")
        cluster = ClusterId(self.cluster_id) if self.cluster_id else None
        return JobRule(self.namespace, manifest, cluster, self.timeout_seconds)


@strawberry.input
class GateMetricAttributes:
    """A PromQL query that decides at a gate. Give either `url`, or `clusterId` and `service`."""

    query: str
    """PromQL query. Limit: 10,000 characters."""
    threshold: float
    """Threshold for the value."""
    comparison: Comparison = Comparison.AT_MOST
    """Comparison of the value with the threshold. Default: `AT_MOST`."""
    url: str = ""
    """URL of a Prometheus server that the control plane queries."""
    cluster_id: strawberry.ID | None = None
    """ID of the cluster whose agent queries Prometheus."""
    service: str = ""
    """Prometheus in that cluster, as `namespace/name:port`."""
    baseline: str = ""
    """PromQL query for a baseline. The value is divided by it before the comparison. Default: none.
    """
    several: SeriesPolicy = SeriesPolicy.ALL
    """Meaning of several series. Default: `ALL`."""
    empty_passes: bool = False
    """True if a query without series passes. Default: false."""

    def rule(self) -> MetricRule:
        if self.service and not self.cluster_id:
            raise Invalid("is required with metric.service", field="metric.clusterId")
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
    """A signed POST request whose response decides at a gate. Status 202, 409, 425, 429 and 503
    mean "not yet"."""

    url: str
    """URL of the endpoint. Limit: 2,000 characters."""
    status: int = 0
    """Required status. Default: 0, any status from 200 to 299."""
    contains: str = ""
    """Text that the body must contain. Default: none."""
    secret: str | None = None
    """Signing secret `whsec_…` (Standard Webhooks). Never returned. Null keeps the current one."""

    def rule(self) -> HttpRule:
        return HttpRule(self.url, self.status, self.contains, sealed=self.secret or "")


@strawberry.input
class GateVersionAttributes:
    """A version of another service that decides at a gate."""

    service: str
    """Name of the service in the clusters of the target stage."""
    range: str
    """Version range in the syntax of npm, such as `^1.2` or `>=2 <3`."""


@strawberry.input
class PipelineRuleAttributes:
    """Settings of a gate or a workflow step."""

    name: str
    """Name, unique on the edge or in the workflow. Limit: 63 characters for steps, 255 for gates.
    """
    quorum: int | None = None
    """APPROVAL: number of required approvals. Default: 1. Limit: 20."""
    not_author: bool | None = None
    """APPROVAL: true keeps the author of the release from approving. Default: true."""
    people: list[str] | None = None
    """APPROVAL: e-mail addresses of possible approvers. Default: everybody with the permission.
    Limit: 100."""
    groups: list[str] | None = None
    """APPROVAL: names of groups of possible approvers. Default: everybody with the permission.
    Limit: 100."""
    soak_seconds: int | None = None
    """SOAK: seconds for which the source stage must stay healthy. Limit: 7,776,000 (90 days)."""
    wait_seconds: int | None = None
    """WAIT: seconds to wait. Limit: 7,776,000 (90 days)."""
    instructions: str = ""
    """MANUAL: instructions for the person who confirms. Limit: 10,000 characters."""
    account: str = ""
    """EXTERNAL: e-mail address of the account that answers."""
    secret: str | None = None
    """EXTERNAL: secret `whsec_…` that signs answers. Never returned. Null keeps the current one."""
    calendar: GateCalendarAttributes | None = None
    """WINDOW: calendar of release windows."""
    job: GateJobAttributes | None = None
    """JOB: job to run."""
    metric: GateMetricAttributes | None = None
    """METRIC: query to evaluate."""
    http: GateHttpAttributes | None = None
    """HTTP: endpoint to call."""
    version: GateVersionAttributes | None = None
    """VERSION: service and version range."""
    timeout_seconds: int = 0
    """Timeout of one attempt in seconds. Default: 0, one hour for checks and none for other
    gates. Limit: 7,776,000."""
    attempts: int = 1
    """Maximum number of attempts. Default: 1. Limit: 20."""
    backoff_seconds: int = 10
    """Seconds before the second attempt. Doubles with each attempt, up to 3,600. Default: 10."""
    interval_seconds: int = 15
    """Seconds between two polls of an undecided check. Default: 15. Limit: 3,600."""

    def patience(self) -> Patience:
        return Patience(
            self.timeout_seconds, self.attempts, self.backoff_seconds, self.interval_seconds
        )

    def needed(self, name: str) -> Any:
        """Returns a required field of this type. Invalid: it is absent."""
        value = getattr(self, name)
        if value is None:
            raise Invalid(f"this type requires {_camel(name)}", field=self.name)
        return value


@strawberry.input
class PipelineStepAttributes(PipelineRuleAttributes):
    """A step of a workflow."""

    type: StepKind
    """Kind of step. It determines the fields that apply."""
    after: list[str] | None = None
    """Names of steps that must pass first. Default: none."""

    def step(self) -> Step:
        rule = _STEPS[self.type](self)
        return Step(self.name, rule, tuple(self.after or ()), self.patience())


@strawberry.input
class PipelineGateAttributes(PipelineRuleAttributes):
    """A gate on an edge of a pipeline."""

    type: GateKind
    """Kind of gate. It determines the fields that apply."""
    steps: list[PipelineStepAttributes] | None = None
    """WORKFLOW: steps of the workflow. Limit: 50, with at most one APPROVAL."""

    def rule(self) -> Rule:
        if self.type is GateKind.WORKFLOW:
            return WorkflowRule(tuple(step.step() for step in self.steps or ()))
        return _RULES[self.type](self)


@strawberry.input
class PipelineWorkflowAttributes:
    """Workflow that runs in a stage after its services are healthy."""

    steps: list[PipelineStepAttributes]
    """Steps of the workflow. Limit: 50, with at most one APPROVAL."""
    timeout_seconds: int = 0
    """Timeout of the whole workflow in seconds. Default: 0, none. Limit: 7,776,000."""

    def rule(self) -> WorkflowRule:
        return WorkflowRule(tuple(step.step() for step in self.steps))

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
    """Returns the settings of a rule with the field names of its input."""
    return _rule_settings(rule) | settings_json(patience)


def _rule_settings(rule: Any) -> dict[str, Any]:
    if isinstance(rule, WorkflowRule):
        return {"steps": [_step(step) for step in rule.steps]}
    if rule.kind in _RENAMED:
        return {_RENAMED[rule.kind]: rule.seconds}
    settings = settings_json(rule)
    return {_NESTED[rule.kind]: settings} if rule.kind in _NESTED else settings


def _step(step: Step) -> dict[str, Any]:
    after = {"after": list(step.after)} if step.after else {}
    own = {"name": step.name, "type": step.rule.kind.value}
    return {**own, **after, **_settings(step.rule, step.patience)}


def settings_json(value: Any) -> Any:
    """Converts a value of the domain to JSON: camel case, without defaults."""
    if isinstance(value, StrEnum):
        return value.value
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, tuple | list):
        return [settings_json(item) for item in value]
    if not is_dataclass(value):
        return dict(value) if isinstance(value, Mapping) else value
    settings = {}
    for member in fields(value):
        current = getattr(value, member.name)
        if member.name not in _HIDDEN and current != _default(member):
            settings[_camel(member.name)] = settings_json(current)
    return settings


def _default(member: Any) -> Any:
    return member.default_factory() if member.default_factory is not MISSING else member.default


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.title() for part in rest)
