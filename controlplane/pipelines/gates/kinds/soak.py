"""Gates that wait for a time of good health."""

from dataclasses import dataclass
from datetime import timedelta
from typing import Annotated

from controlplane.pipelines.model.gate_rules import (
    MAX_GATE_SECONDS,
    GateInputs,
    GateRule,
    GateVerdict,
)
from controlplane.pipelines.model.state import GateStatus
from controlplane.platform.plugin_settings import Setting


@dataclass(frozen=True, slots=True)
class SoakRule(GateRule):
    """The source stage stays healthy for some time."""

    kind = "SOAK"
    title = "Soak"

    soak_seconds: Annotated[
        int, Setting("Seconds", minimum=1, maximum=MAX_GATE_SECONDS, unit="seconds", example=600)
    ]
    """Seconds for which the source stage must stay healthy with the release."""

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        since = inputs.source.healthy_since or inputs.now
        until = since + timedelta(seconds=self.soak_seconds)
        if inputs.now >= until:
            return GateVerdict(GateStatus.OPEN, f"healthy since {since:%Y-%m-%d %H:%M:%S} UTC")
        reason = f"soaking until {until:%Y-%m-%d %H:%M:%S} UTC"
        return GateVerdict(GateStatus.RUNNING, reason, until)
