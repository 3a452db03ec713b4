"""Paths inside a commit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from gitcache.domain import paths


@pytest.mark.parametrize(
    ("text", "folder"),
    [("", ""), (".", ""), ("/", ""), ("a/b/", "a/b"), ("./a//b", "a/b"), ("a/../b", "b")],
)
def test_the_normal_form_of_a_folder(text: str, folder: str) -> None:
    assert paths.folder_path(text) == folder


@pytest.mark.parametrize("text", ["..", "a/../../b", "../x", "a\0b", "a\\b", "x" * 2000])
def test_folders_that_leave_the_repository_are_refused(text: str) -> None:
    with pytest.raises(Invalid):
        paths.folder_path(text)


@given(st.text(alphabet="./ab", max_size=20), st.text(alphabet="./ab", max_size=20))
def test_a_joined_path_never_leaves_the_repository(base: str, relative: str) -> None:
    try:
        folder = paths.folder_path(base)
    except Invalid:
        return
    joined = paths.join(folder, relative)
    assert joined is None or not (joined.startswith(("/", "../")) or joined == "..")


@pytest.mark.parametrize(
    ("path", "folder", "inside"),
    [
        ("a", "", True),
        ("a", "a", True),
        ("a/b", "a", True),
        ("ab", "a", False),
        ("a", "a/b", False),
    ],
)
def test_a_folder_holds_itself_and_what_is_in_it(path: str, folder: str, inside: bool) -> None:
    assert paths.is_below(path, folder) is inside


def test_a_path_may_have_as_many_characters_as_the_limit() -> None:
    assert paths.folder_path("x" * 1024) == "x" * 1024


@pytest.mark.parametrize(
    ("path", "folder", "seen"),
    [("a", "a", "."), ("", "", "."), ("base", "over/prod", "../../base"), ("a/b", "", "a/b")],
)
def test_paths_are_relative_to_the_folder(path: str, folder: str, seen: str) -> None:
    assert paths.relative_to(path, folder) == seen
