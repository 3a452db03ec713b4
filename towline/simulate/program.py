"""Runs scenarios in order against a control plane with agents, and cleans up."""

import tempfile
from collections.abc import AsyncGenerator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

from core.errors import Invalid, TowlineError
from core.identity import new_id
from core.runtime.clock import SystemClock
from towline.demo.process_group import ProcessGroup
from towline.simulate.churn import read
from towline.simulate.control_plane import ControlPlaneAddresses, TemporaryControlPlane
from towline.simulate.fleet import SimulatedFleet
from towline.simulate.results import ScenarioResult
from towline.simulate.scenarios import SCENARIOS
from towline.simulate.simulation import PrintProgress, Simulation, SimulationPlan
from towline.simulate.worker_processes import WorkerProcess

MAX_CLUSTERS = 20_000
MAX_PROCESSES = 64
_AGENTS_A_PROCESS = 700


def sort_scenarios(names: Sequence[str]) -> list[str]:
    """Sorts scenarios in the order they must run. Invalid: unknown scenario."""
    for name in names:
        if name not in SCENARIOS:
            raise Invalid(
                f"unknown scenario {name!r}; expected one of {', '.join(SCENARIOS)}",
                field="scenario",
            )
    return [name for name in SCENARIOS if name in names]


def validate_plan(plan: SimulationPlan, processes: int | None) -> int:
    """Validates a plan; returns the number of processes for agents. Raises Invalid."""
    if not 2 <= plan.clusters <= MAX_CLUSTERS:
        raise Invalid(f"must be 2 to {MAX_CLUSTERS:,} clusters", field="clusters")
    if not 1 <= plan.seconds <= 3600:
        raise Invalid("must be 1 to 3600 seconds", field="seconds")
    if not 1 <= plan.noise <= 10_000:
        raise Invalid("must be 1 to 10000 reports per second", field="noise")
    if plan.churn is not None:
        read(plan.churn)
    count = processes or 2 + plan.clusters // _AGENTS_A_PROCESS
    if not 2 <= count <= MAX_PROCESSES:
        raise Invalid(f"must be 2 to {MAX_PROCESSES} processes", field="processes")
    return count


async def run(
    names: Sequence[str],
    plan: SimulationPlan,
    processes: int | None,
    hub: ControlPlaneAddresses | None,
    say: PrintProgress,
) -> list[ScenarioResult]:
    """Runs the scenarios against `hub`, or against a temporary control plane."""
    scenarios, count = sort_scenarios(names), validate_plan(plan, processes)
    outcomes = []
    async with start_simulation(plan, count, hub, say) as stage:
        for name in scenarios:
            if name not in ("idle", "onboard") and stage.size < plan.clusters:
                await stage.grow(plan.clusters)
            if name == "onboard" and stage.size >= plan.clusters:
                continue
            say(f"scenario {name}")
            outcomes.append(await SCENARIOS[name](stage))
    return outcomes


@asynccontextmanager
async def start_simulation(
    plan: SimulationPlan, processes: int, hub: ControlPlaneAddresses | None, say: PrintProgress
) -> AsyncGenerator[Simulation, None]:
    """Creates a stage without agents; cleans up after the block."""
    async with AsyncExitStack() as ends:
        folder = Path(ends.enter_context(tempfile.TemporaryDirectory(prefix="towline-simulate-")))
        own = None
        if hub is None:
            say("starting a control plane")
            own = ends.enter_context(TemporaryControlPlane())
            hub = own.hub
        group = ends.enter_context(ProcessGroup())
        prefix = f"simulated-{new_id(SystemClock().now())[-8:]}"
        fleet = SimulatedFleet(hub.client(), prefix)
        workers = [
            await WorkerProcess.start(group, folder / "workers.log") for _ in range(processes)
        ]
        try:
            yield Simulation(hub, fleet, workers, plan, say, own)
        finally:
            for worker in workers:
                await worker.stop()
            if own is None and fleet.clusters:
                _remove_clusters(fleet, say)


def _remove_clusters(fleet: SimulatedFleet, say: PrintProgress) -> None:
    say(f"removing {len(fleet.clusters)} clusters")
    try:
        fleet.remove()
    except TowlineError as error:
        say(f"the simulated clusters are still registered: {error.message}")
