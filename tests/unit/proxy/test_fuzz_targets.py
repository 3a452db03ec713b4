"""Targets that `make fuzz` runs for longer, with hypothesis for a moment."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.fuzz.targets import SEEDS, TARGETS, accepted


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_are_taken(name: str) -> None:
    for seed in SEEDS[name]:
        TARGETS[name](seed)


@pytest.mark.parametrize("name", TARGETS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_altered_seeds_break_no_rule(name: str, data: st.DataObject) -> None:
    """Pieces of seeds, bytes of any kind between them, in any order."""
    piece = st.sampled_from(SEEDS[name]).flatmap(
        lambda seed: st.tuples(st.integers(0, len(seed)), st.integers(0, len(seed))).map(
            lambda cut: seed[min(cut) : max(cut)]
        )
    )
    parts = st.lists(st.one_of(piece, st.binary(max_size=8), st.sampled_from(SEEDS[name])))
    TARGETS[name](b"".join(data.draw(parts)))


def test_the_seeds_of_heads_are_such_that_are_accepted() -> None:
    """But the one with two spaces, which the C parser takes and no other does."""
    assert [accepted(seed) is not None for seed in SEEDS["head"]] == [True, False, True]
