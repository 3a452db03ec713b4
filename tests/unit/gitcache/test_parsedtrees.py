"""Large trees are parsed where they have changed, and come out as if parsed whole."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.domain.trees import parse_tree
from gitcache.mirror.parsed_trees import ParsedTrees

PLACE = ("r", "services")
COUNT = 1_100
Rows = list[tuple[bytes, bytes, bytes]]


def rows() -> Rows:
    """A large folder: folders and some files."""
    return [
        (b"100644" if number % 7 == 0 else b"40000", b"s%05d" % number, b"%020d" % number)
        for number in range(COUNT)
    ]


def raw(entries: Rows) -> bytes:
    return b"".join(b"%b %b\0%b" % entry for entry in entries)


changes = st.lists(
    st.tuples(
        st.integers(0, COUNT - 1),
        st.sampled_from([b"40000", b"100644", b"100755", b"120000"]),
        st.sampled_from([b"", b"s00001", b"x0 \x0000", b"t99999"]),
        st.binary(min_size=20, max_size=20),
    ),
    max_size=5,
)


@settings(max_examples=30)
@given(st.lists(changes, min_size=1, max_size=3))
def test_a_tree_after_another_is_as_if_parsed_whole(commits: list) -> None:
    trees, entries = ParsedTrees(60_000), rows()
    trees.parse("0" * 40, raw(entries), PLACE)
    for number, commit in enumerate(commits, 1):
        for index, mode, name, one in commit:
            kept = name.replace(b"\0", b"-") or entries[index][1]
            entries[index] = (mode, kept, one)
        data = raw(entries)
        assert trees.parse(f"{number:040}", data, PLACE) == parse_tree(data, 20)


@pytest.mark.parametrize("data", [b"100644 a", raw(rows())[:-1], b"100644 a\0" + b"x" * 21])
def test_a_malformed_tree_is_refused(data: bytes) -> None:
    with pytest.raises(Invalid, match="tree of this commit is malformed"):
        parse_tree(data, 20)


def test_a_tree_is_found_again_by_its_id() -> None:
    trees = ParsedTrees(60_000)
    parsed = trees.parse("0" * 40, raw(rows()), PLACE)
    assert trees.get("0" * 40) is parsed
    assert trees.get("1" * 40) is None


def test_trees_are_dropped_beyond_the_bound() -> None:
    trees = ParsedTrees(COUNT + 10)
    for number in range(3):
        trees.parse(f"{number:040}", raw(rows()))
    assert [trees.get(f"{number:040}") is not None for number in range(3)] == [False, False, True]
