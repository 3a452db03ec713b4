"""A thousand agents that lose their control plane at one moment do not come back in step."""

import random
from collections import Counter
from collections.abc import Iterator
from itertools import accumulate

from core.runtime.backoff import Backoff
from syncagent.link.supervisor import reconnect_delay

AGENTS = 1000


def tries(seed: int) -> Iterator[float]:
    """Times of one agent's attempts, in seconds after the loss, while nobody answers."""
    backoff = Backoff(draw=random.Random(seed).uniform)
    return accumulate(backoff.next() for _ in range(60))


def knocks(until: float) -> Counter[int]:
    """Number of attempts of all agents in each second."""
    return Counter(int(at) for seed in range(AGENTS) for at in tries(seed) if at < until)


def test_a_storm_is_spread_from_its_first_second_on() -> None:
    """In no tenth of the first second do twice as many knock as in the mean one."""
    firsts = Counter(int(next(tries(seed)) * 10) for seed in range(AGENTS))
    assert sorted(firsts) == list(range(10)) and max(firsts.values()) < AGENTS / 10 * 2


def test_a_control_plane_that_stays_away_is_knocked_at_ever_less() -> None:
    """After a minute about a tenth of all agents knock in a second, evenly; none gives up."""
    counted = knocks(180.0)
    calm = [counted[second] for second in range(60, 180)]
    assert counted[0] > max(calm)
    assert AGENTS / 10 * 0.5 < min(calm) and max(calm) < AGENTS / 10 * 1.6
    longest = max(b - a for seed in range(AGENTS) for a, b in pairs(seed))
    assert longest <= 20.0


def pairs(seed: int) -> Iterator[tuple[float, float]]:
    before = 0.0
    for at in tries(seed):
        yield before, at
        before = at


def test_agents_reconnect_spread_over_time() -> None:
    """A draining replica is left by all at once; who is refused asks again in a minute."""
    drained = [reconnect_delay(drained=True) for _ in range(AGENTS)]
    assert 0.4 < max(drained) <= 0.5 and min(drained) < 0.1
    refused = [reconnect_delay(drained=False) for _ in range(AGENTS)]
    assert 45 <= min(refused) < 48 and 72 < max(refused) <= 75
