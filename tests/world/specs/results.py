"""Outcomes of specs in a file, which the suite extends whenever a spec begins or ends."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from core.errors import Unavailable
from core.json_object import JsonObject

_LEFT_OPEN = {"begun", "interrupted"}
"""States of specs that were stopped from outside, or whose process has ended."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of a spec: `passed`, or another state of Ginkgo with its reason."""

    state: str
    reason: str = ""

    @property
    def passed(self) -> bool:
        """Reports whether the spec passed."""
        return self.state == "passed"


@dataclass(frozen=True, slots=True)
class Results:
    """The file. Each line belongs to a run, which is a setup, a way and a number of processes."""

    path: Path

    def outcomes(self, run: str, wanted: Collection[str]) -> dict[str, Outcome]:
        """Returns the outcomes of those `wanted` specs that have ended in a run, by name."""
        found = {name: one for name, one in self._last(run).items() if name in wanted}
        return {name: one for name, one in found.items() if one.state not in _LEFT_OPEN}

    def begun(self, run: str) -> set[str]:
        """Returns the names of specs that began in a run and have not ended."""
        return {name for name, one in self._last(run).items() if one.state in _LEFT_OPEN}

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return self.path.stat().st_size if self.path.exists() else 0

    def add(self, run: str, spec: str, outcome: Outcome) -> None:
        """Adds the outcome of a spec that could not do so itself."""
        line = {"run": run, "spec": spec, "state": outcome.state, "reason": outcome.reason}
        with self.path.open("ab") as file:
            file.write(orjson.dumps(line) + b"\n")

    def _last(self, run: str) -> dict[str, Outcome]:
        lines = (line for line in self._lines() if line["run"] == run)
        return {
            line["spec"]: Outcome(line["state"], " ".join(line.get("reason", "").split()))
            for line in lines
        }

    def _lines(self) -> Iterator[JsonObject]:
        if self.path.exists():
            for line in self.path.read_bytes().splitlines():
                yield orjson.loads(line)


def run_rest(
    run_specs: Callable[[Collection[str], int], str],
    results: Results,
    run: str,
    specs: Collection[str],
    processes: int,
) -> dict[str, Outcome]:
    """Runs those specs that have no outcome yet, until each has one; returns all outcomes.

    A process of the suite that ends early takes its spec along: that one runs again, alone.
    `run_specs` returns what the suite said last. Unavailable: the suite did not start.
    """
    alone: set[str] = set()
    while rest := set(specs) - results.outcomes(run, specs).keys():
        if together := rest - alone:
            size = results.size
            said = run_specs(together, processes)
            if results.size == size:
                raise Unavailable(f"the specs did not start: {said}")
            alone |= together & results.begun(run)
            continue
        for name in rest:
            said = run_specs([name], 1)
            if name not in results.outcomes(run, specs):
                results.add(run, name, Outcome("lost", f"its process ended early: {said}"))
    return results.outcomes(run, specs)
