"""Limits name the field, the allowed values and the given value."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.platform.limits import check_count, check_length, check_range, check_unique
from core.errors import Invalid


@given(st.integers(), st.integers(), st.integers(min_value=0, max_value=1_000))
def test_a_range_accepts_exactly_the_values_between_its_ends(value, least, width):
    inside = least <= value <= least + width
    try:
        check_range(value, "minutes", least, least + width)
    except Invalid as error:
        assert not inside and error.field == "minutes"
    else:
        assert inside


def test_a_range_names_its_ends_its_unit_and_the_value():
    with pytest.raises(Invalid) as refused:
        check_range(90_000, "timeout", 0, 86_400, "s")
    assert str(refused.value) == "timeout: must be 0 to 86,400 s, not 90,000"


@pytest.mark.parametrize(
    ("count", "least", "message"),
    [
        (21, 0, "gates: must have at most 20 gates, not 21"),
        (0, 1, "gates: must have 1 to 20 gates, not 0"),
        (21, 1, "gates: must have 1 to 20 gates, not 21"),
    ],
)
def test_a_count_names_the_limit_and_the_number(count, least, message):
    check_count(least, "gates", 20, "gates", least=least)
    check_count(20, "gates", 20, "gates", least=least)
    with pytest.raises(Invalid) as refused:
        check_count(count, "gates", 20, "gates", least=least)
    assert str(refused.value) == message


def test_a_length_returns_the_text_and_never_repeats_a_refused_one():
    assert check_length("", "name", 3) == "" and check_length("abc", "name", 3) == "abc"
    with pytest.raises(Invalid) as refused:
        check_length("abcd", "name", 3)
    assert str(refused.value) == "name: must have at most 3 characters, not 4"


def test_the_second_of_equal_names_is_refused():
    check_unique(iter("abc"), "steps")
    with pytest.raises(Invalid) as refused:
        check_unique(["a", "b", "a"], "steps", "step name")
    assert str(refused.value) == "steps: duplicate step name a"
