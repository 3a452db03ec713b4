"""Followed names and the refs they stand for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitcache.domain import refs

A, B = "a" * 40, "b" * 40


def test_a_branch_wins_over_a_tag_of_the_same_name() -> None:
    """A user who may push only tags must not replace a followed branch."""
    listed = {"refs/heads/main": A, "refs/tags/main": B}
    assert refs.resolve({"main"}, listed).commits == {"main": A}


def test_a_longer_name_with_the_same_beginning_is_another_ref() -> None:
    resolved = refs.resolve({"main"}, {"refs/heads/main2": A})
    assert resolved.commits == {} and resolved.missing == {"main"}


def test_full_names_tags_head_and_shas_are_understood() -> None:
    listed = {"refs/tags/v1": A, "HEAD": B, "refs/pull/7/head": A}
    resolved = refs.resolve({"v1", "HEAD", "refs/pull/7/head", B}, listed)
    assert resolved.commits == {"v1": A, "HEAD": B, "refs/pull/7/head": A, B: B}
    assert resolved.missing == frozenset()


@pytest.mark.parametrize(
    "name", ["", "a b", "a..b", "-x", "a\nref-prefix refs/", "x.lock", "a" * 600]
)
def test_names_that_no_ref_can_have_are_missing_and_never_asked_for(name: str) -> None:
    assert refs.prefixes({name}) == []
    assert refs.resolve({name}, {}).missing == {name}


@pytest.mark.parametrize("name", ["v", "a" * 512])
def test_the_shortest_and_the_longest_name_are_asked_for(name: str) -> None:
    assert refs.prefixes({name}) == [f"refs/heads/{name}", f"refs/tags/{name}"]


def test_a_request_for_the_same_names_is_the_same_in_any_order() -> None:
    """A poll is prepared once, and sent again while nothing changes."""
    names = [f"release-{number}" for number in range(20)]
    assert refs.prefixes(names) == refs.prefixes(reversed(names)) == sorted(refs.prefixes(names))


@pytest.mark.parametrize(
    ("pattern", "arguments"),
    [
        ("main", ["refs/heads/main"]),
        ("release/*", ["refs/heads/release/", "refs/heads/release/*"]),
        ("refs/tags/v*", ["refs/tags/v", "refs/tags/v*"]),
    ],
)
def test_a_pattern_asks_for_its_refs_only(pattern: str, arguments: list[str]) -> None:
    assert refs.listing_arguments(pattern) == arguments


@given(st.text())
def test_ref_prefixes_contain_no_whitespace(name: str) -> None:
    assert all("\n" not in ref and " " not in ref for ref in refs.prefixes({name}))
