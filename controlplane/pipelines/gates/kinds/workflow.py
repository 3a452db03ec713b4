"""Gates, and checks of a stage, that consist of steps."""

from collections.abc import Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from controlplane.pipelines.model.gate_rules import WORKFLOW, GateRule, Patience, Step
from controlplane.platform.limits import check_count, check_unique
from controlplane.platform.names import check_text
from core.errors import Invalid
from core.json_object import JsonObject

_MAX_STEPS = 50


@dataclass(frozen=True, slots=True)
class WorkflowRule(GateRule):
    """A graph of steps passes."""

    kind = WORKFLOW
    title = "Workflow"

    steps: tuple[Step, ...]

    @classmethod
    def example(cls) -> JsonObject:
        return {"steps": [{"name": "wait", "type": "WAIT", "waitSeconds": 60}]}

    def steps_with(self, patience: Patience) -> Sequence[Step]:
        by_name = {step.name: step for step in self.steps}
        try:
            names = TopologicalSorter({step.name: step.after for step in self.steps}).static_order()
            return [by_name[name] for name in names]
        except CycleError as error:
            cycle = " → ".join(reversed(error.args[1]))
            raise Invalid(f"steps wait for each other: {cycle}", field="steps") from None

    def leaf_rules(self) -> Sequence[GateRule]:
        return [step.rule for step in self.steps]

    def check_together(self, field: str) -> None:
        check_count(len(self.steps), f"{field}.steps", _MAX_STEPS, least=1)
        names = [step.name for step in self.steps]
        check_unique(names, f"{field}.steps", "step name")
        for number, step in enumerate(self.steps):
            _check_step(step, names, f"{field}.steps[{number}]")
        if sum(step.rule.asks_users for step in self.steps) > 1:
            raise Invalid("only one step can require approval", field=f"{field}.steps")
        self.steps_with(Patience())


def _check_step(step: Step, names: Sequence[str], field: str) -> None:
    check_text(step.name, f"{field}.name", 63)
    if not step.name.replace("-", "").replace("_", "").isalnum():
        raise Invalid("must consist of letters, digits, - and _", field=f"{field}.name")
    if unknown := [name for name in step.after if name not in names]:
        raise Invalid(f"step {unknown[0]} does not exist", field=f"{field}.after")
    if not step.rule.in_workflows:
        raise Invalid(f"{step.rule.kind} cannot be a step of a workflow", field=field)
    step.rule.check(field)
    step.patience.check(field)
