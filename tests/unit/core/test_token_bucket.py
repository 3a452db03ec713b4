"""Token buckets allow a burst plus the rate, in any period, and keep a bounded number of keys."""

import math

from hypothesis import given
from hypothesis import strategies as st

from core.runtime.token_bucket import RatePolicy, TokenBucket, TokenBuckets

POLICY = RatePolicy(rate=4.0, burst=10.0, max_debt=20.0)
# Multiples of 1/8 are exact, so that sums and limits can be compared.
PERIODS = st.integers(0, 80).map(lambda eighths: eighths / 8)
COSTS = st.integers(1, 12)
STEPS = st.lists(st.tuples(PERIODS, COSTS), max_size=60)


@given(STEPS)
def test_take_never_exceeds_burst_and_rate_in_any_period(steps: list[tuple[float, int]]) -> None:
    bucket, now = TokenBucket(POLICY, 0.0), 0.0
    taken: list[tuple[float, int]] = []
    for later, cost in steps:
        now += later
        before = bucket.available(now)
        if (wait := bucket.take(now, cost)) == 0.0:
            taken.append((now, cost))
            assert before >= cost
        else:
            assert wait == (cost - before) / POLICY.rate
    for index, (start, _) in enumerate(taken):
        total = sum(cost for _, cost in taken[index:])
        assert total <= POLICY.burst + POLICY.rate * (now - start)


@given(STEPS)
def test_a_refused_take_succeeds_after_its_wait(steps: list[tuple[float, int]]) -> None:
    bucket, now = TokenBucket(POLICY, 0.0), 0.0
    for later, cost in steps:
        now += later
        if wait := bucket.take(now, min(cost, POLICY.burst)):
            now += wait
            assert bucket.take(now, min(cost, POLICY.burst)) == 0.0


@given(STEPS)
def test_reservations_become_due_at_the_rate(steps: list[tuple[float, int]]) -> None:
    """Until the maximum debt, no more tokens are due at a time than burst and rate allow."""
    policy = RatePolicy(POLICY.rate, POLICY.burst)
    bucket, now, reserved = TokenBucket(policy, 0.0), 0.0, 0
    for later, cost in steps:
        now += later
        due = now + bucket.reserve(now, cost)
        reserved += cost
        assert reserved <= policy.burst + policy.rate * due


@given(STEPS)
def test_a_reservation_waits_no_longer_than_the_maximum_debt(
    steps: list[tuple[float, int]],
) -> None:
    bucket, now = TokenBucket(POLICY, 0.0), 0.0
    for later, cost in steps:
        now += later
        assert bucket.reserve(now, cost) <= POLICY.max_debt / POLICY.rate


def test_returned_tokens_never_exceed_the_burst() -> None:
    bucket = TokenBucket(POLICY, 0.0)
    bucket.take(0.0, 10)
    bucket.give_back(4)
    assert bucket.available(0.0) == 4
    bucket.give_back(100)
    assert bucket.available(0.0) == POLICY.burst
    assert bucket.is_full(0.0)


def test_a_policy_of_a_period_refills_within_it() -> None:
    policy = RatePolicy.per(seconds=10.0, tokens=100)
    assert policy == RatePolicy(rate=10.0, burst=100, max_debt=math.inf)
    bucket = TokenBucket(policy, 0.0)
    assert bucket.take(0.0, 100) == 0.0
    assert not bucket.is_full(9.0)
    assert bucket.is_full(10.0)


@given(st.lists(st.tuples(PERIODS, st.integers(0, 9)), max_size=80))
def test_many_keys_use_bounded_memory_and_each_keeps_its_limit(
    steps: list[tuple[float, int]],
) -> None:
    buckets, now, max_keys = TokenBuckets[int](POLICY, 0.0, max_keys=3), 0.0, 3
    taken: dict[int, int] = {}
    for later, key in steps:
        now += later
        if buckets.get(key, now).take(now, 2) == 0.0:
            taken[key] = taken.get(key, 0) + 2
        assert len(buckets) <= max_keys
        # A key can move from the shared bucket to one of its own.
        assert taken.get(key, 0) <= 2 * POLICY.burst + 2 * POLICY.rate * now


def test_keys_above_the_maximum_share_a_bucket() -> None:
    buckets = TokenBuckets[str](POLICY, 0.0, max_keys=2)
    for key in "ab":
        assert buckets.get(key, 0.0).take(0.0, POLICY.burst) == 0.0
    assert buckets.get("c", 0.0) is buckets.get("d", 0.0)
    assert buckets.get("a", 0.0).take(0.0) > 0.0
    later = POLICY.burst / POLICY.rate
    assert buckets.get("c", later).take(later) == 0.0
    assert buckets.get("d", later).take(later) == 0.0
    assert buckets.get("c", later) is not buckets.get("d", later)
    assert len(buckets) == 2
