"""Git's raw trees and commits."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.domain.commits import parse_commit
from gitcache.domain.trees import Entry, check_entry_name, parse_tree

TREE = "1" * 40
SHA = "2" * 40


def raw_tree(entries: dict[str, Entry]) -> bytes:
    return b"".join(
        b"%o %b\0%b" % (one.mode, name.encode(), bytes.fromhex(one.id))
        for name, one in entries.items()
    )


names = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1)
entries = st.builds(
    Entry, st.sampled_from([0o100644, 0o100755, 0o40000, 0o120000, 0o160000]), st.just(TREE)
)


@given(st.dictionaries(names, entries, max_size=20))
def test_a_tree_is_read_as_it_was_written(tree: dict[str, Entry]) -> None:
    assert parse_tree(raw_tree(tree), 20) == tree


@given(st.binary(max_size=200))
def test_any_bytes_are_a_tree_or_invalid(data: bytes) -> None:
    try:
        parse_tree(data, 20)
    except Invalid:
        return


@pytest.mark.parametrize("name", [".", "..", ".git", ".GIT", "a/b", "\udc80"])
def test_names_that_escape_are_refused(name: str) -> None:
    with pytest.raises(Invalid):
        check_entry_name(name)


def test_a_parsed_commit_has_author_subject_and_time() -> None:
    data = (
        f"tree {TREE}\nparent {SHA}\nauthor Ann <ann@x> 1700000000 +0200\n"
        "committer Bob <bob@x> 1700000100 -0500\ngpgsig -----BEGIN\n tree x\n\n"
        "Fix the shop\n\nBody\n"
    ).encode()
    record = parse_commit(SHA, data)
    assert record.tree == TREE
    assert record.commit.author == "Ann <ann@x>"
    assert record.commit.subject == "Fix the shop"
    assert record.commit.committed_at == datetime.fromtimestamp(1700000100, UTC)


@pytest.mark.parametrize("head", ["", f"tree {TREE[:39]}\n", f"tree {TREE}0\n", f"parent {SHA}\n"])
def test_a_commit_without_a_whole_tree_is_refused(head: str) -> None:
    with pytest.raises(Invalid, match="is not a commit"):
        parse_commit(SHA, f"{head}author A <a@x> 1 +0000\n\nx".encode())


def test_control_characters_of_a_subject_do_not_reach_a_terminal() -> None:
    record = parse_commit(SHA, f"tree {TREE}\n\nred \x1b[31m".encode())
    assert "\x1b" not in record.commit.subject


@given(st.binary(max_size=200))
def test_any_bytes_are_a_commit_or_invalid(data: bytes) -> None:
    try:
        parse_commit(SHA, b"tree " + TREE.encode() + b"\n" + data)
    except Invalid:
        return


def test_a_time_beyond_the_calendar_is_no_crash() -> None:
    data = f"tree {TREE}\ncommitter A <a> 99999999999999999 +0000\n\nx".encode()
    assert parse_commit(SHA, data).commit.committed_at == datetime.fromtimestamp(0, UTC)
