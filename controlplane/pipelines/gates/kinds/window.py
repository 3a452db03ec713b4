"""Gates that a calendar opens."""

from dataclasses import dataclass
from typing import Annotated

from controlplane.pipelines.model.calendar import Calendar
from controlplane.pipelines.model.gate_rules import GateInputs, GateRule, GateVerdict
from controlplane.pipelines.model.state import GateStatus
from controlplane.platform.plugin_settings import Setting

_EXAMPLE = {
    "zone": "UTC",
    "hours": [{"weekdays": [0, 1, 2, 3], "begin": "09:00", "end": "16:00"}],
}


@dataclass(frozen=True, slots=True)
class WindowRule(GateRule):
    """The calendar is open."""

    kind = "WINDOW"
    title = "Window"

    calendar: Annotated[Calendar, Setting("Calendar", example=_EXAMPLE)]
    """Calendar of release windows."""

    def check_together(self, field: str) -> None:
        self.calendar.check(f"{field}.calendar")

    def evaluate(self, inputs: GateInputs) -> GateVerdict:
        closed_reason = self.calendar.closed_reason(inputs.now)
        change = self.calendar.next_change(inputs.now)
        if closed_reason is None:
            return GateVerdict(GateStatus.OPEN, "within opening hours", change)
        opening = f", opens {change:%Y-%m-%d %H:%M} UTC" if change else ", and never opens again"
        return GateVerdict(GateStatus.RUNNING, f"{closed_reason}{opening}", change)
