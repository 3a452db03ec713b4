"""The work queue never processes a key twice at once, and forgets no added key."""

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Unavailable
from core.runtime.backoff import Backoff
from core.runtime.tasks import Tasks
from core.runtime.work_queue import MAX_RETRY_SECONDS, WorkQueue
from tests.fakes.clock import FakeClock, settle

KEYS = st.sampled_from("abc")
SECONDS = st.integers(0, 40).map(lambda quarters: quarters / 4)


class Worker:
    """Work that takes a given time and fails a given number of times; records its runs."""

    def __init__(self, clock: FakeClock) -> None:
        self.clock = clock
        self.tasks = Tasks("test")
        self.queue = WorkQueue("test", self.work, self.tasks, clock, self.backoff)
        self.duration = 0.0
        self.failures: Counter[str] = Counter()
        self.running: set[str] = set()
        self.failed: set[str] = set()
        self.starts: list[tuple[str, float]] = []

    @staticmethod
    def backoff() -> Backoff:
        return Backoff(first=1.0, limit=4.0, factor=2.0, draw=lambda _, ceiling: ceiling)

    async def work(self, key: str) -> None:
        assert key not in self.running
        self.running.add(key)
        self.starts.append((key, self.clock.monotonic()))
        try:
            await self.clock.sleep(self.duration)
        finally:
            self.running.discard(key)
        if self.failures[key]:
            self.failures[key] -= 1
            self.failed.add(key)
            raise Unavailable(f"{key} is away")
        self.failed.discard(key)

    def times(self, key: str) -> list[float]:
        return [at for started, at in self.starts if started == key]


@pytest.fixture
def worker() -> Worker:
    return Worker(FakeClock())


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("add"), KEYS),
        st.tuples(st.just("add after"), KEYS, SECONDS),
        st.tuples(st.just("fail"), KEYS, st.integers(1, 3)),
        st.tuples(st.just("takes"), SECONDS),
        st.tuples(st.just("wait"), SECONDS),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_key_runs_alone_and_after_each_add(steps: list[tuple]) -> None:
    """At the end, no key was forgotten, and each failure was followed by a success."""

    async def play() -> None:
        worker = Worker(FakeClock())
        added: dict[str, float] = {}
        for step in steps:
            now = worker.clock.monotonic()
            match step:
                case "add", key:
                    worker.queue.add(key)
                    added[key] = now
                case "add after", key, seconds:
                    worker.queue.add_after(key, seconds)
                    added[key] = now
                case "fail", key, times:
                    worker.failures[key] += times
                case "takes", seconds:
                    worker.duration = seconds
                case "wait", seconds:
                    await worker.clock.advance(seconds)
        await worker.clock.advance(10_000)
        for key, at in added.items():
            assert worker.times(key)[-1] >= at
        assert not worker.running | worker.failed
        assert worker.clock.sleepers == 0
        await worker.tasks.stop()

    asyncio.run(play())


async def test_adds_during_a_run_cause_one_more_run(worker: Worker) -> None:
    worker.duration = 10.0
    worker.queue.add("a")
    await worker.clock.advance(1)
    for _ in range(5):
        worker.queue.add("a")
    await worker.clock.advance(100)
    assert worker.times("a") == [0.0, 10.0]


async def test_keys_run_concurrently(worker: Worker) -> None:
    worker.duration = 10.0
    for key in "abc":
        worker.queue.add(key)
    await settle()
    assert worker.running == {"a", "b", "c"}


async def test_a_key_that_adds_itself_leaves_time_for_others() -> None:
    """Even if its work never waits."""
    tasks, order = Tasks("test"), list[str]()

    async def work(key: str) -> None:
        order.append(key)
        if key == "busy" and len(order) < 100:
            queue.add(key)

    queue = WorkQueue("test", work, tasks, FakeClock())
    queue.add("busy")
    queue.add("other")
    await settle()
    assert order.index("other") <= 1


async def test_the_earliest_delay_of_a_key_takes_precedence(worker: Worker) -> None:
    worker.queue.add_after("a", 10)
    worker.queue.add_after("a", 5)
    worker.queue.add_after("a", 20)
    await worker.clock.advance(4)
    assert worker.times("a") == []
    await worker.clock.advance(100)
    assert worker.times("a") == [5.0]


async def test_failures_back_off_until_a_success(worker: Worker) -> None:
    worker.failures["a"] = 4
    worker.queue.add("a")
    await worker.clock.advance(100)
    assert worker.times("a") == [0.0, 1.0, 3.0, 7.0, 11.0]
    worker.failures["a"] = 1
    worker.queue.add("a")
    await worker.clock.advance(100)
    assert worker.times("a")[-2:] == [100.0, 101.0]


async def test_an_add_does_not_wait_for_the_backoff(worker: Worker) -> None:
    worker.failures["a"] = 1
    worker.queue.add("a")
    await worker.clock.advance(0.5)
    worker.queue.add("a")
    await settle()
    assert worker.times("a") == [0.0, 0.5]


async def test_failures_are_retried_within_5_seconds() -> None:
    clock, tasks, runs = FakeClock(), Tasks("test"), 0

    async def work(_: str) -> None:
        nonlocal runs
        runs += 1
        raise Unavailable("away")

    queue = WorkQueue("test", work, tasks, clock)
    queue.add("a")
    for expected in range(1, 20):
        await settle()
        assert runs >= expected
        await clock.advance(MAX_RETRY_SECONDS)
    await tasks.stop()


async def test_an_unexpected_error_frees_the_key() -> None:
    tasks, runs = Tasks("test"), 0

    async def work(_: str) -> None:
        nonlocal runs
        runs += 1
        raise ValueError("broken")

    queue = WorkQueue("test", work, tasks, FakeClock())
    for expected in (1, 2):
        queue.add("a")
        await settle()
        assert runs == expected


async def test_nothing_runs_after_the_stop(worker: Worker) -> None:
    worker.duration = 10.0
    worker.queue.add("a")
    worker.queue.add_after("b", 5)
    await settle()
    worker.queue.add("a")
    await worker.tasks.stop()
    worker.queue.add("c")
    worker.queue.add_after("d", 1)
    await worker.clock.advance(100)
    assert worker.starts == [("a", 0.0)]
    assert not worker.running
