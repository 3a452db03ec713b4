"""The runner of jobs: each due job runs once, and failures are retried."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from controlplane.platform.jobs import LEASE, MAX_ATTEMPTS, MAX_RUN, Job, retry_delay
from controlplane.platform.loops.jobs import JobRunner
from controlplane.platform.ports import JobStore
from core.errors import Unavailable
from core.runtime.tasks import Tasks
from tests.fakes.operations import MemoryOperations, operations_over_memory

KIND = "test.work"


class Work:
    """Records its runs. `failures`: number of runs that fail first."""

    def __init__(self, failures: int = 0) -> None:
        self.ran: list[str] = []
        self.most_at_once = 0
        self.may_end = asyncio.Event()
        self.may_end.set()
        self._failures = failures
        self._under_way = 0

    async def __call__(self, job: Job) -> None:
        self._under_way += 1
        self.most_at_once = max(self.most_at_once, self._under_way)
        self.ran.append(job.key)
        try:
            await self.may_end.wait()
            if len(self.ran) <= self._failures:
                raise Unavailable("the server does not answer")
        finally:
            self._under_way -= 1


@asynccontextmanager
async def running(
    world: MemoryOperations, work: Work, *, recurring: bool = False, max_concurrent: int = 4
) -> AsyncGenerator[JobRunner]:
    tasks = Tasks("test")
    runner = JobRunner(
        world.context, tasks, "here", {KIND: work}, max_concurrent, recurring=recurring
    )
    runner.start()
    try:
        yield runner
    finally:
        await tasks.stop()


async def enqueue(world: MemoryOperations, *keys: str, kind: str = KIND) -> None:
    async with world.store.write() as tx:
        for key in keys:
            await tx[JobStore].enqueue(Job(key, kind, key, world.clock.now()))


async def has_jobs(world: MemoryOperations, kind: str = KIND) -> bool:
    async with world.store.read() as tx:
        return await tx[JobStore].next_due([kind]) is not None


async def until(condition: Callable[[], bool]) -> None:
    while not condition():
        await asyncio.sleep(0)


async def until_finished(world: MemoryOperations) -> None:
    while await has_jobs(world):
        await asyncio.sleep(0)


async def until_retried(world: MemoryOperations, attempts: int) -> None:
    """Waits until the job is back in the queue; before that, it is due when its lease ends."""
    retried_at = world.clock.now() + retry_delay(attempts)
    due = None
    while due != retried_at:
        await asyncio.sleep(0)
        async with world.store.read() as tx:
            due = await tx[JobStore].next_due([KIND])


async def test_due_jobs_run_once_and_end() -> None:
    world, work = operations_over_memory(), Work()
    await enqueue(world, "first", "second")
    async with running(world, work):
        await until_finished(world)
    assert sorted(work.ran) == ["first", "second"]


async def test_a_job_that_is_added_later_runs_after_a_wake() -> None:
    world, work = operations_over_memory(), Work()
    async with running(world, work) as runner:
        await asyncio.sleep(0)
        await enqueue(world, "later")
        runner.wake()
        await until_finished(world)
    assert work.ran == ["later"]


async def test_jobs_of_other_kinds_stay() -> None:
    world, work = operations_over_memory(), Work()
    await enqueue(world, "foreign", kind="other.work")
    await enqueue(world, "own")
    async with running(world, work):
        await until_finished(world)
    assert work.ran == ["own"]
    assert await has_jobs(world, "other.work")


async def test_at_most_the_given_number_runs_at_once() -> None:
    world, work = operations_over_memory(), Work()
    work.may_end.clear()
    await enqueue(world, *"abcdef")
    async with running(world, work, max_concurrent=2):
        await until(lambda: len(work.ran) == 2)
        work.may_end.set()
        await until_finished(world)
    assert sorted(work.ran) == list("abcdef")
    assert work.most_at_once == 2


async def test_a_failed_job_is_retried_after_a_delay() -> None:
    world, work = operations_over_memory(), Work(failures=1)
    await enqueue(world, "job")
    async with running(world, work) as runner:
        await until_retried(world, attempts=1)
        assert work.ran == ["job"]
        await world.clock.advance(2)
        runner.wake()
        await until_finished(world)
    assert work.ran == ["job", "job"]


@pytest.mark.parametrize("recurring", [False, True])
async def test_only_recurring_jobs_are_retried_without_limit(recurring: bool) -> None:
    world, work = operations_over_memory(), Work(failures=2 * MAX_ATTEMPTS)
    await enqueue(world, "job")
    async with running(world, work, recurring=recurring) as runner:
        for attempts in range(1, MAX_ATTEMPTS):
            await until_retried(world, attempts)
            await world.clock.advance(300)
            runner.wake()
        if recurring:
            await until_retried(world, MAX_ATTEMPTS)
        else:
            await until_finished(world)
    assert len(work.ran) == MAX_ATTEMPTS
    assert await has_jobs(world) == recurring


async def test_work_of_recurring_jobs_ends_them_itself() -> None:
    world, work = operations_over_memory(), Work()
    await enqueue(world, "job")
    async with running(world, work, recurring=True):
        await until(lambda: work.ran == ["job"])
    assert await has_jobs(world)


async def pass_time(world: MemoryOperations, runner: JobRunner, seconds: float) -> None:
    """Lets time pass in steps shorter than a lease, and looks for due jobs after each."""
    step = LEASE.total_seconds() / 4
    for _ in range(int(seconds / step)):
        await world.clock.advance(step)
        runner.wake()
    await world.clock.advance(0)


async def test_a_job_that_runs_longer_than_a_lease_runs_once() -> None:
    world, work = operations_over_memory(), Work()
    work.may_end.clear()
    await enqueue(world, "long")
    async with running(world, work) as runner:
        await until(lambda: work.ran == ["long"])
        await pass_time(world, runner, 5 * LEASE.total_seconds())
        assert work.ran == ["long"]
        work.may_end.set()
        await until_finished(world)


async def test_a_job_that_hangs_starts_again() -> None:
    world, work = operations_over_memory(), Work()
    work.may_end.clear()
    await enqueue(world, "stuck")
    async with running(world, work) as runner:
        await until(lambda: work.ran == ["stuck"])
        await pass_time(world, runner, MAX_RUN.total_seconds())
        assert work.ran == ["stuck"]
        await pass_time(world, runner, 2 * LEASE.total_seconds())
        assert work.ran == ["stuck", "stuck"]


async def test_a_failed_job_is_not_leased_by_a_late_renewal() -> None:
    world, work = operations_over_memory(), Work(failures=1)
    work.may_end.clear()
    await enqueue(world, "job")
    async with running(world, work) as runner:
        await until(lambda: work.ran == ["job"])
        await pass_time(world, runner, 2 * LEASE.total_seconds())
        work.may_end.set()
        await until_retried(world, attempts=1)
        await pass_time(world, runner, LEASE.total_seconds())
        await until_finished(world)
    assert work.ran == ["job", "job"]
