"""Kinds of gates and workflow steps: one module for each kind, and its line in `ALL`.

The engine that runs gates, and the workers that run checks, do not belong here.
"""

from controlplane.pipelines.gates.kinds.approval import ApprovalRule
from controlplane.pipelines.gates.kinds.external import ExternalRule
from controlplane.pipelines.gates.kinds.http import HttpRule
from controlplane.pipelines.gates.kinds.job import JobRule
from controlplane.pipelines.gates.kinds.manual import ManualRule
from controlplane.pipelines.gates.kinds.metric import MetricRule
from controlplane.pipelines.gates.kinds.soak import SoakRule
from controlplane.pipelines.gates.kinds.version import VersionRule
from controlplane.pipelines.gates.kinds.wait import WaitRule
from controlplane.pipelines.gates.kinds.window import WindowRule
from controlplane.pipelines.gates.kinds.workflow import WorkflowRule
from controlplane.pipelines.model.gate_rules import GateRule

ALL: tuple[type[GateRule], ...] = (
    ApprovalRule,
    SoakRule,
    WindowRule,
    JobRule,
    MetricRule,
    HttpRule,
    VersionRule,
    ManualRule,
    ExternalRule,
    WaitRule,
    WorkflowRule,
)
"""Kinds in the order of forms and of the published schema."""

BY_KIND = {rule.kind: rule for rule in ALL}
GATES = tuple(rule for rule in ALL if rule.in_gates)
STEPS = tuple(rule for rule in ALL if rule.in_workflows)
