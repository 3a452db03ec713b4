"""Gates that a user confirms."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.gate_rules import GateInputs, GateRule, GateVerdict
from controlplane.pipelines.model.state import GateStatus
from controlplane.platform.plugin_settings import Form, Setting


@dataclass(frozen=True, slots=True)
class ManualRule(GateRule):
    """A person confirms that the source stage is verified."""

    kind = "MANUAL"
    title = "Manual"
    asks_users = True

    instructions: Annotated[str, Setting("Instructions", form=Form.MULTILINE)] = ""
    """Instructions for the person who confirms."""

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        actors = sorted(approval.actor for approval in inputs.valid_approvals)
        if actors:
            return GateVerdict(GateStatus.OPEN, f"verified by {actors[0]}")
        instructions = f": {self.instructions}" if self.instructions else ""
        reason = f"waiting for manual verification{instructions}"
        return GateVerdict(GateStatus.RUNNING, reason)
