"""Pipelines are advanced soon after each change that concerns them."""

from collections.abc import AsyncIterator, Collection
from datetime import datetime
from typing import Any, cast

import pytest

from controlplane.pipelines.loop import PipelineLoop
from controlplane.pipelines.model.records import PipelineRecord
from controlplane.pipelines.operations.engine_runner import TICK
from controlplane.platform.context import CLUSTER_JOB, GENERATORS, PIPELINE, SERVICE
from controlplane.platform.jobs import Job
from controlplane.platform.ports import LOST_WAKES, JobStore
from core.errors import Unavailable
from core.identity import RepositoryId
from core.spec.source import RepositorySpec
from tests.fakes.clock import START, settle
from tests.fakes.operations import MemoryOperations, operations_over_memory

SWEEP = 60
SWEEPS_OF_ALL = 60


class Pipelines:
    """Operations of pipelines `p` and `q`: a service `s-p` is in `p`, a job `j-p` is of `p`."""

    def __init__(self) -> None:
        self.advanced: list[str] = []
        self.touched_at_once: list[int] = []
        self.changed: list[str] = []
        self.since: list[datetime] = []
        self.ticked: list[str] = []
        self.hinted: list[str] = []
        self.is_away = False

    async def advance(self, id: str) -> None:
        self.advanced.append(id)

    async def delete_old_events(self) -> None: ...

    async def pipelines_changed_since(self, moment: datetime) -> list[str]:
        self.since.append(moment)
        return self.changed

    async def pipelines_of_services(self, services: Collection[str]) -> set[str]:
        self._check()
        self.touched_at_once.append(len(services))
        return {id.removeprefix("s-") for id in services if id.startswith("s-")}

    async def pipeline_of_job(self, id: str) -> str | None:
        self._check()
        return id.removeprefix("j-") if id.startswith("j-") else None

    async def tick(self, job: Job) -> None:
        self.ticked.append(job.key)

    async def hint_merges(self, repository_id: str) -> None:
        self.hinted.append(repository_id)

    def __getattr__(self, name: str) -> Any:
        """Work of jobs that no test adds."""
        return self.tick

    def _check(self) -> None:
        if self.is_away:
            raise Unavailable("the store does not answer")

    async def since_last(self) -> list[str]:
        """Pipelines that were advanced since the last call."""
        await settle(50)
        found, self.advanced = sorted(self.advanced), []
        return found


class Running:
    """A started loop that has advanced both pipelines once."""

    def __init__(self) -> None:
        self.world: MemoryOperations = operations_over_memory()
        self.pipelines = Pipelines()
        parts = cast(Any, self.pipelines)
        self.loop = PipelineLoop(parts, parts, parts, parts, self.world.context, "here")


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    running = Running()
    for id in ("p", "q"):
        await running.world.given(PipelineRecord(id, id, START, START))
    await running.loop.start()
    assert await running.pipelines.since_last() == ["p", "q"]
    yield running
    await running.loop.stop()


@pytest.mark.parametrize(
    ("wake", "advanced"),
    [
        ((PIPELINE, "q"), ["q"]),
        ((SERVICE, "s-p"), ["p"]),
        ((SERVICE, "other"), []),
        ((CLUSTER_JOB, "j-q"), ["q"]),
        ((CLUSTER_JOB, "other"), []),
        ((GENERATORS, ""), ["p", "q"]),
        ((GENERATORS, "set"), []),
        ((LOST_WAKES, ""), ["p", "q"]),
    ],
)
async def test_a_change_advances_the_pipelines_that_it_concerns(
    running: Running, wake: tuple[str, str], advanced: list[str]
) -> None:
    running.world.bus.publish(*wake)
    assert await running.pipelines.since_last() == advanced


async def test_services_that_change_together_are_looked_up_together(running: Running) -> None:
    for number in range(2_500):
        running.world.bus.publish(SERVICE, f"s-{number}")
    await settle(5_000)
    assert len(await running.pipelines.since_last()) == 2_500
    assert max(running.pipelines.touched_at_once) <= 1_000
    assert len(running.pipelines.touched_at_once) < 10


@pytest.mark.parametrize("wake", [(SERVICE, "s-p"), (CLUSTER_JOB, "j-p")])
async def test_a_change_during_an_outage_is_handled_after_it(
    running: Running, wake: tuple[str, str]
) -> None:
    running.pipelines.is_away = True
    running.world.bus.publish(*wake)
    assert await running.pipelines.since_last() == []
    running.pipelines.is_away = False
    await running.world.clock.advance(5)
    assert await running.pipelines.since_last() == ["p"]


async def test_a_sweep_covers_recent_changes(running: Running) -> None:
    """In case an event was missed; the time before the last sweep overlaps."""
    running.pipelines.changed = ["q", "p"]
    await running.world.clock.advance(SWEEP)
    assert await running.pipelines.since_last() == ["p", "q"]
    assert (START - running.pipelines.since[0]).total_seconds() == SWEEP
    await running.world.clock.advance(SWEEP)
    assert running.pipelines.since[1] == START


async def test_each_hour_all_pipelines_are_swept(running: Running) -> None:
    await running.world.clock.advance((SWEEPS_OF_ALL - 1) * SWEEP)
    assert await running.pipelines.since_last() == []
    await running.world.clock.advance(SWEEP)
    assert await running.pipelines.since_last() == ["p", "q"]


async def test_a_change_of_a_pipeline_runs_its_jobs_at_once(running: Running) -> None:
    async with running.world.store.write() as tx:
        await tx[JobStore].enqueue(Job("1", TICK, "tick p", START))
    assert running.pipelines.ticked == []
    running.world.bus.publish(PIPELINE, "p")
    await settle(50)
    assert running.pipelines.ticked == ["tick p"]


async def test_a_commit_wakes_pipelines_that_wait_for_a_merge(running: Running) -> None:
    running.world.manifests.follow(
        RepositorySpec(RepositoryId("fleet"), "https://git.example.org/fleet", frozenset({"main"}))
    )
    running.world.manifests.push("fleet", {})
    await settle(50)
    assert set(running.pipelines.hinted) == {"fleet"}
