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


@given(st.text())
def test_ref_prefixes_contain_no_whitespace(name: str) -> None:
    assert all("\n" not in ref and " " not in ref for ref in refs.prefixes({name}))
