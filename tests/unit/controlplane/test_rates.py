"""Rate limits of callers and of renders: never exceeded, independent of each other."""

from hypothesis import given
from hypothesis import strategies as st

from controlplane.platform.rate_limits import (
    MAX_TRACKED_CALLERS,
    WINDOW_S,
    RenderRates,
    RequestLimiter,
)
from core.runtime.token_bucket import RatePolicy


@given(st.lists(st.tuples(st.sampled_from("abc"), st.floats(0, 5)), max_size=60), st.integers(1, 9))
def test_no_caller_gets_more_than_they_may(asked: list[tuple[str, float]], most: int) -> None:
    """In each window; and who is sent away may come when it is over."""
    rates, now = RequestLimiter(RatePolicy.per(WINDOW_S, most)), 1e9
    let_in: dict[tuple[str, int], int] = {}
    for caller, later in asked:
        now += later
        place = (caller, int(now // WINDOW_S))
        wait = rates.take(caller, now)
        assert (wait > 0) == (let_in.get(place, 0) == most)
        if wait:
            assert int((now + wait) // WINDOW_S) == place[1] + 1
        else:
            let_in[place] = let_in.get(place, 0) + 1


def test_requests_of_other_replicas_count_in_their_window_only() -> None:
    rates = RequestLimiter(RatePolicy.per(WINDOW_S, 10))
    assert rates.take("ada", 100.0) == 0.0
    rates.record_other_replicas(rates.window, {"ada": 9})
    assert rates.take("ada", 101.0) == 9.0
    assert rates.take("bob", 101.0) == 0.0
    rates.record_other_replicas(rates.window - 1, {"bob": 9})
    assert rates.take("bob", 101.0) == 0.0
    assert rates.take("ada", 110.0) == 0.0


def test_only_busy_callers_are_shared() -> None:
    rates = RequestLimiter(RatePolicy.per(WINDOW_S, 100))
    for caller, count in (("loud", 5), ("quiet", 4)):
        for _ in range(count):
            rates.take(caller, 100.0)
    assert rates.counts_to_share(100.0) == {"loud": 5}
    assert rates.counts_to_share(100.0 + WINDOW_S) == {}
    assert RequestLimiter(None).counts_to_share(100.0) == {}


def test_many_addresses_fill_no_memory_and_share_what_is_left() -> None:
    rates = RequestLimiter(RatePolicy.per(WINDOW_S, 2))
    waits = [rates.take(f"address {number}", 100.0) for number in range(MAX_TRACKED_CALLERS + 3)]
    assert waits[:-1] == [0.0] * (MAX_TRACKED_CALLERS + 2)
    assert waits[-1] == 10.0
    assert len(rates.own) == MAX_TRACKED_CALLERS + 1
    assert rates.take("ada", 100.0) == 0.0
    assert rates.take("address 0", 100.0) == 0.0, "known addresses keep their own counter"
    assert rates.take("address 0", 100.0) == 10.0


def test_without_a_limit_nothing_is_counted() -> None:
    rates = RequestLimiter(None)
    assert [rates.take("ada", 100.0) for _ in range(3)] == [0.0] * 3
    assert rates.own == {}


def test_renders_of_a_project_are_limited_by_the_minute() -> None:
    rates = RenderRates()
    assert [rates.take("shop", 2, 1, 100.0) for _ in range(2)] == [0.0, 0.0]
    assert rates.take("shop", 2, 1, 100.0) == 30.0
    assert rates.take("bank", 2, 1, 100.0) == 0.0, "projects do not wait for each other"
    assert rates.take("shop", 2, 1, 130.0) == 0.0
    assert rates.take("shop", 3, 1, 130.0) == 0.0, "another limit begins anew"


def test_a_stage_larger_than_the_limit_begins_and_is_paid_later() -> None:
    rates = RenderRates()
    assert rates.take("shop", 2, 5, 100.0) == 0.0
    assert rates.take("shop", 2, 1, 100.0) > 60.0
    assert rates.take("shop", 2, 1, 220.0) == 0.0
