"""Workflow steps that pause."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.gate_rules import MAX_GATE_SECONDS, GateRule
from controlplane.platform.plugin_settings import Setting


@dataclass(frozen=True, slots=True)
class WaitRule(GateRule):
    """A fixed time passes. Gates use a soak time instead."""

    kind = "WAIT"
    title = "Wait"
    in_gates = False
    in_workflows = True

    wait_seconds: Annotated[
        int, Setting("Seconds", minimum=1, maximum=MAX_GATE_SECONDS, unit="seconds", example=60)
    ]
    """Seconds to wait."""
