"""Background work runs its steps periodically, retries failures, and stops."""

from collections.abc import AsyncIterator

import pytest

from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import RETRY_SECONDS
from core.errors import Unavailable
from tests.fakes.clock import FakeClock


class Steps(BackgroundLoop):
    """One step now and every minute, one after ten seconds and every minute."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__("steps", clock)
        self.begun = clock.monotonic()
        self.early: list[float] = []
        self.late: list[float] = []
        self.failures = 0

    async def start(self) -> None:
        self._every(60, "early", self._early)
        self._every(60, "late", self._late, delay=10)

    async def _early(self) -> None:
        if self.failures:
            self.failures -= 1
            raise Unavailable("the store is away")
        self.early.append(self._clock.monotonic() - self.begun)

    async def _late(self) -> None:
        self.late.append(self._clock.monotonic() - self.begun)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
async def steps(clock: FakeClock) -> AsyncIterator[Steps]:
    made = Steps(clock)
    yield made
    await made.stop()


async def test_steps_run_periodically_from_their_delay_on(steps: Steps, clock: FakeClock) -> None:
    await steps.start()
    await clock.advance(130)
    assert (steps.early, steps.late) == ([0, 60, 120], [10, 70, 130])


async def test_a_failed_step_is_retried_soon_and_delays_no_other(
    steps: Steps, clock: FakeClock
) -> None:
    steps.failures = 2
    await steps.start()
    await clock.advance(2 * RETRY_SECONDS + 60)
    assert steps.early == [2 * RETRY_SECONDS, 2 * RETRY_SECONDS + 60]
    assert steps.late == [10, 70]


async def test_nothing_runs_after_the_stop(steps: Steps, clock: FakeClock) -> None:
    await steps.start()
    await clock.advance(10)
    await steps.stop()
    await clock.advance(600)
    assert (steps.early, steps.late) == ([0], [10])
