"""Gates in the API: inputs, settings and state."""

from datetime import datetime
from typing import Any

import orjson
import strawberry

from controlplane.pipelines.gates.kinds import ALL, BY_KIND, GATES, STEPS
from controlplane.pipelines.gates.kinds.approval import ApprovalRule
from controlplane.pipelines.gates.kinds.metric import MetricRule, SeriesPolicy
from controlplane.pipelines.gates.kinds.workflow import WorkflowRule
from controlplane.pipelines.model import pipeline
from controlplane.pipelines.model.gate_rules import (
    WORKFLOW,
    GateRule,
    Patience,
    Step,
    needs_approval,
)
from controlplane.pipelines.model.records import Measurement
from controlplane.pipelines.model.state import CheckState, GateState, GateStatus
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, draft
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    settings_json,
    settings_of_kind,
    with_settings_of,
)

_GateType = enum_of_kinds("GateType", GATES, "Kind of a gate.")
_StepType = enum_of_kinds("StepType", STEPS, "Kind of a workflow step.")
strawberry.enum(SeriesPolicy, name="MetricSeveral")
strawberry.enum(
    GateStatus, name="GateState", description="State of a gate or of an automated check."
)


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
    type: str = strawberry.field(graphql_type=_GateType)
    """Kind of gate."""
    state: GateStatus
    """State of the gate for the current release."""
    reason: str
    """Reason of the state."""
    quorum: int | None
    """Number of required approvals. Null for other kinds of gates."""
    not_author: bool | None
    """True if the author of the release may not approve. Null for other kinds of gates."""
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
    rule: strawberry.Private[GateRule]

    @strawberry.field
    async def measured(self, info: Info) -> list[GateMeasurement]:
        """Results of metric queries, newest last. Limit: 240."""
        if not any(isinstance(rule, MetricRule) for rule in self.rule.parts()):
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


@draft(Patience)
@with_settings_of(ALL, "Gate")
class PipelineRuleAttributes(Draft[Patience]):
    """Settings of a gate or a workflow step."""

    name: str
    """Name, unique on the edge or in the workflow. Limit: 63 characters for steps, 255 for gates.
    """


@strawberry.input
class PipelineStepAttributes(PipelineRuleAttributes):
    """A step of a workflow."""

    type: str = strawberry.field(graphql_type=_StepType)
    """Kind of step. It determines the fields that apply."""
    after: list[str] | None = None
    """Names of steps that must pass first. Default: none."""

    def step(self) -> Step:
        rule = settings_from(BY_KIND[self.type], self, self.name)
        return Step(self.name, rule, tuple(self.after or ()), self.change())


@strawberry.input
class PipelineGateAttributes(PipelineRuleAttributes):
    """A gate on an edge of a pipeline."""

    type: str = strawberry.field(graphql_type=_GateType)
    """Kind of gate. It determines the fields that apply."""
    steps: list[PipelineStepAttributes] | None = None
    """WORKFLOW: steps of the workflow. Limit: 50, with at most one APPROVAL."""

    def rule(self) -> GateRule:
        if self.type == WORKFLOW:
            return WorkflowRule(tuple(step.step() for step in self.steps or ()))
        return settings_from(BY_KIND[self.type], self, self.name)


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


def _settings(rule: GateRule, patience: Patience) -> dict[str, Any]:
    """Returns the settings of a rule with the field names of its input."""
    if isinstance(rule, WorkflowRule):
        own: dict[str, Any] = {"steps": [_step(step) for step in rule.steps]}
    else:
        own = settings_of_kind(rule)
    return own | settings_json(patience)


def _step(step: Step) -> dict[str, Any]:
    after = {"after": list(step.after)} if step.after else {}
    own = {"name": step.name, "type": step.rule.kind}
    return {**own, **after, **_settings(step.rule, step.patience)}
