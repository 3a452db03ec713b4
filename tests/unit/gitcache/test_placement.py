"""Placement of repositories on replicas."""

import math

from hypothesis import given
from hypothesis import strategies as st

from gitcache.domain.placement import OVERLOAD, assign_to_replicas, rank_replicas

names = st.sets(st.text("abcdef", min_size=1, max_size=3), min_size=1, max_size=6)
keys = st.sets(st.text("0123456789", min_size=1, max_size=4), max_size=60)


@given(keys, names)
def test_every_key_has_one_place_and_no_place_is_overloaded(
    keys: set[str], names: set[str]
) -> None:
    placed = assign_to_replicas(keys, names)
    assert placed.keys() == keys
    most = math.ceil(OVERLOAD * len(keys) / len(names))
    assert all(list(placed.values()).count(name) <= most for name in names)


@given(keys, names)
def test_all_replicas_come_to_the_same_answer(keys: set[str], names: set[str]) -> None:
    assert assign_to_replicas(sorted(keys), sorted(names)) == assign_to_replicas(
        sorted(keys)[::-1], sorted(names)[::-1]
    )


@given(st.text(), names)
def test_a_rank_names_everyone_once(key: str, names: set[str]) -> None:
    assert sorted(rank_replicas(key, names)) == sorted(names)


def test_nobody_is_nowhere() -> None:
    assert assign_to_replicas({"a"}, set()) == {}


def test_a_replica_that_joins_moves_little_more_than_its_share() -> None:
    keys = {f"r{number}" for number in range(1000)}
    before, after = (
        assign_to_replicas(keys, {"a", "b", "c"}),
        assign_to_replicas(keys, {"a", "b", "c", "d"}),
    )
    assert sum(before[key] != after[key] for key in keys) < 400
