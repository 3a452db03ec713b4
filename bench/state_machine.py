"""Measures the coverage of the pipeline state machine by its property test."""

from collections import Counter

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from bench.report import BenchReport
from controlplane.pipelines.engine.effects import Effect
from controlplane.pipelines.engine.engine import HANDLERS
from controlplane.pipelines.model.state import GateStatus, Health, PipelineState
from tests.unit.controlplane.pipelines.test_pipeline_machine import Walk

CASES, STEPS = 400, 40
SEEN: Counter[str] = Counter()


class CountingWalk(Walk):
    """The property test's walk, with counters."""

    def check_all(self, before: PipelineState, effects: tuple[Effect, ...]) -> None:
        super().check_all(before, effects)
        after, (event, _) = self.line.state, self.line.log[-1]
        SEEN["events"] += 1
        if after != before:
            SEEN[f"event {type(event).__name__}"] += 1
        for id, held in after.stages.items():
            was = before.stages.get(id)
            if was is not None and was.health is not held.health:
                SEEN[f"health {was.health} {held.health}"] += 1
        for id, candidate in after.candidates.items():
            earlier = before.candidates.get(id)
            for name, gate in candidate.gates.items():
                was_gate = earlier.gates.get(name) if earlier else None
                if was_gate is not None and was_gate.status is not gate.status:
                    SEEN[f"gate {was_gate.status} {gate.status}"] += 1

    def teardown(self) -> None:
        super().teardown()
        SEEN["cases"] += 1


def covered(sort: str) -> int:
    """Number of distinct transitions of a kind."""
    return sum(1 for name in SEEN if name.startswith(f"{sort} "))


def main() -> None:
    given = settings(
        max_examples=CASES,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        derandomize=True,
    )
    run_state_machine_as_test(CountingWalk, settings=given)
    report = BenchReport("state_machine")
    report.add("cases", [SEEN["cases"]], "cases", goal=CASES, at_most=False)
    report.add("events in all", [SEEN["events"]], "events")
    transitions = {
        "event": len(HANDLERS),
        "health": _pairs(Health),
        "gate": _pairs(GateStatus),
    }
    for sort, total in transitions.items():
        report.add(
            f"{sort}: kinds of transitions walked",
            [covered(sort)],
            "kinds",
            baseline="all that can be named",
            baseline_values=[total],
        )
    report.write()


def _pairs(states: type[Health] | type[GateStatus]) -> int:
    return len(states) * (len(states) - 1)


if __name__ == "__main__":
    main()
