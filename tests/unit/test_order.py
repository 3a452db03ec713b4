"""Tests that compute stand among those that wait."""

from hypothesis import given
from hypothesis import strategies as st

from tests.order import spread


def test_a_short_list_is_spread_over_a_long_one() -> None:
    assert spread([list("abcdef"), [1, 2]]) == ["a", "b", 1, "c", "d", "e", 2, "f"]


@given(st.lists(st.lists(st.integers()), max_size=4))
def test_nothing_is_lost_and_each_list_keeps_its_order(parts: list[list[int]]) -> None:
    named = [[(index, *one) for one in enumerate(part)] for index, part in enumerate(parts)]
    found = spread(named)
    assert [[one for one in found if one[0] == index] for index in range(len(named))] == named
