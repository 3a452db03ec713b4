"""Refs and folders of repositories, and links to their web pages."""

import pytest

from controlplane.repositories.model.repository import (
    check_folder,
    check_link,
    check_ref,
    check_ref_of,
    normalize_folder,
)
from core.errors import Invalid
from core.spec.source import RepositoryKind

# One reference for each rule of git-check-ref-format(1), then the limit of the store.
NO_REFS = [
    *("", "-x", "/x", "x/", "x//y", ".x", "x/.y", "x.", "x.lock", "x.lock/y", "x..y"),
    *("x@{1}", "x\\y", "x~1", "x^", "x:y", "x?", "x*", "x[1]", "x y", "x\ty", "x\x7fy"),
    "x" * 256,
]


@pytest.mark.parametrize("ref", NO_REFS)
def test_what_git_refuses_as_a_branch_is_refused(ref: str) -> None:
    for check in (check_ref, lambda ref: check_ref_of(RepositoryKind.GIT, ref)):
        with pytest.raises(Invalid, match="is not a branch, tag or commit") as error:
            check(ref)
        assert error.value.field == "git.ref"


@pytest.mark.parametrize(
    "ref",
    ["main", "release/1.2", "v1.2.3", "a" * 40, "x" * 255, "@", "x{1}", "x-", "x.y", "übung", "x!"],
)
def test_what_git_accepts_as_a_branch_is_accepted_as_it_is(ref: str) -> None:
    assert check_ref(ref) == check_ref_of(RepositoryKind.GIT, ref) == ref


@pytest.mark.parametrize("folder", ["..", "../x", "x/..", "x/../y", "x\ny", "x\x1fy", "x" * 1025])
def test_a_folder_outside_of_the_repository_is_refused(folder: str) -> None:
    with pytest.raises(Invalid, match="leaves the repository") as error:
        check_folder(folder)
    assert error.value.field == "git.folder"


@pytest.mark.parametrize(
    ("folder", "in_git"),
    [
        ("", ""),
        (".", ""),
        ("/", ""),
        ("./apps//web/", "apps/web"),
        ("apps/.hidden", "apps/.hidden"),
        ("a b/...", "a b/..."),
        ("x" * 1024, "x" * 1024),
    ],
)
def test_a_folder_has_one_name_in_git(folder: str, in_git: str) -> None:
    assert normalize_folder(check_folder(folder)) == in_git


def test_a_link_has_a_length_that_browsers_take() -> None:
    longest = "https://x.example.org/".ljust(2048, "x")
    check_link(longest, "httpsPath")
    for link in (f"{longest}x", "https://x.example.org/\u202e", ""):
        with pytest.raises(Invalid) as error:
            check_link(link, "httpsPath")
        assert error.value.field == "httpsPath"
