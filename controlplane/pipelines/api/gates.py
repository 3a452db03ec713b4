"""Gates in the API: inputs, settings and state."""

from collections.abc import Iterable

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
from controlplane.pipelines.model.state import Approval, CheckState, GateState, GateStatus
from controlplane.pipelines.operations.drafts import GateDraft
from controlplane.pipelines.operations.pipelines import Pipelines
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.plugin_inputs import (
    enum_of_kinds,
    settings_from,
    settings_json,
    settings_of_kind,
    with_settings_of,
)
from core.json_object import JsonObject

_GateType = enum_of_kinds("GateType", GATES, "Kind of a gate.")
_StepType = enum_of_kinds("StepType", STEPS, "Kind of a workflow step.")
strawberry.enum(SeriesPolicy, name="MetricSeveral")
strawberry.enum(
    GateStatus, name="GateState", description="State of a gate or of an automated check."
)


@output(Approval, hide={"digests"})
class GateApproval(Output[Approval]):
    """Approval of a release at a gate."""


@strawberry.type
class GateOutput:
    """Output of a job: a termination message, or a line `NAME=VALUE` of it."""

    name: str
    """Name of the container or of the value."""
    value: str
    """Text of the output."""


@output(Measurement)
class GateMeasurement(Output[Measurement]):
    """Result of a metric query for a release."""


def _outputs(check: CheckState) -> list[GateOutput]:
    return [GateOutput(name=name, value=value) for name, value in check.outputs.items()]


@output(
    CheckState,
    rename={"state": "status"},
    only={"status", "reason", "attempt", "job_id", "outputs"},
    nullable={"job_id"},
)
class GateCheck(Output[CheckState]):
    """State of an automated check of a gate."""

    step: str
    """Name of the gate or of its step."""
    outputs: list[GateOutput] = computed(_outputs)


def _checks(state: GateState) -> list[GateCheck]:
    return [GateCheck.of(check, step=step) for step, check in state.checks.items()]


@output(GateState, rename={"state": "status"}, hide={"since"}, nullable={"skipped"})
class PipelineGateType(Output[GateState]):
    """A gate before a stage, or the workflow of a stage, with its state for the current release."""

    id: strawberry.ID
    name: str
    """Name of the gate."""
    type: str = strawberry.field(graphql_type=_GateType)
    """Kind of gate."""
    quorum: int | None
    """Number of required approvals. Null for other kinds of gates."""
    not_author: bool | None
    """True if the author and the pusher of the release may not approve. Null for other kinds of
    gates."""
    settings: str
    """Settings as JSON with the field names of `PipelineGateAttributes`, without defaults."""
    checks: list[GateCheck] = computed(_checks)
    """State of each automated check."""
    awaits_decision: bool
    """True if a person can approve or reject now."""
    rule: strawberry.Private[GateRule]

    @strawberry.field
    async def measured(self, info: Info) -> list[GateMeasurement]:
        """Results of metric queries, newest last. Limit: 240."""
        if not any(isinstance(rule, MetricRule) for rule in self.rule.leaf_rules()):
            return []
        return GateMeasurement.of_each(await info.context[Pipelines].measurements(self.id))


def gate_type(gate: pipeline.Gate, state: GateState) -> PipelineGateType:
    """Returns the output for a gate."""
    rule = gate.rule
    approval = rule if isinstance(rule, ApprovalRule) else None
    return PipelineGateType.of(
        state,
        id=gate.id,
        name=gate.name,
        type=rule.kind,
        quorum=approval.quorum if approval else None,
        not_author=approval.not_author if approval else None,
        settings=orjson.dumps(_settings(rule, gate.patience)).decode(),
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

    def gate(self) -> GateDraft:
        if self.type == WORKFLOW:
            rule: GateRule = _workflow(self.steps or ())
        else:
            rule = settings_from(BY_KIND[self.type], self, self.name)
        return GateDraft(self.name, rule, self.change())


@strawberry.input
class PipelineWorkflowAttributes:
    """Workflow that runs in a stage after its services are healthy."""

    steps: list[PipelineStepAttributes]
    """Steps of the workflow. Limit: 50, with at most one APPROVAL."""
    timeout_seconds: int = 0
    """Timeout of the whole workflow in seconds. Default: 0, none. Limit: 7,776,000."""

    def gate(self, stage: str) -> GateDraft:
        """Returns the gate of a stage with this name."""
        rule, patience = _workflow(self.steps), Patience(self.timeout_seconds)
        return GateDraft(f"{stage} workflow", rule, patience)


def _workflow(steps: Iterable[PipelineStepAttributes]) -> WorkflowRule:
    return WorkflowRule(tuple(step.step() for step in steps))


def _settings(rule: GateRule, patience: Patience) -> JsonObject:
    """Returns the settings of a rule with the field names of its input."""
    if isinstance(rule, WorkflowRule):
        settings: JsonObject = {"steps": [_step(step) for step in rule.steps]}
    else:
        settings = settings_of_kind(rule)
    return settings | settings_json(patience)


def _step(step: Step) -> JsonObject:
    predecessors = {"after": list(step.after)} if step.after else {}
    settings = {"name": step.name, "type": step.rule.kind}
    return {**settings, **predecessors, **_settings(step.rule, step.patience)}
