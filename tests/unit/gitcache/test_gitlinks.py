"""Submodules and large files as commits write them down."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import Invalid
from core.identity import RepositoryId
from core.remotes import parse_remote
from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain.pointers import Pointer, parse_pointer
from gitcache.domain.submodules import find_followed, parse_modules, repository_location

OID = "a" * 64
POINTER = f"version https://git-lfs.github.com/spec/v1\noid sha256:{OID}\nsize 12\n".encode()
PARENT = parse_remote("https://git.test/team/shop.git")


def test_paths_and_urls_of_submodules_are_read() -> None:
    text = b"""# ours
[submodule "a b"]
\tpath = libs/a
\turl = ../common.git
[submodule "out"]
\tpath = ../../etc
\turl = https://git.test/x
[other]
\tpath = no
\turl = no
[submodule "half"]
\tpath = half
"""
    assert parse_modules(text) == {"libs/a": "../common.git"}


def test_more_submodules_than_anyone_has_are_refused() -> None:
    text = "".join(f'[submodule "{n}"]\npath = p{n}\nurl = u\n' for n in range(201))
    with pytest.raises(Invalid, match="more than 200"):
        parse_modules(text.encode())


@given(st.binary(max_size=300))
def test_no_file_of_submodules_raises(data: bytes) -> None:
    assert all(".." not in path.split("/") for path in parse_modules(data))


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("../common.git", "git.test/team/common"),
        ("./sub", "git.test/team/shop.git/sub"),
        ("git@git.test:team/common.git", "git.test/team/common"),
        ("https://GIT.test/team/common", "git.test/team/common"),
        ("file:///etc", None),
        ("ext::sh -c id", None),
        ("https://user:secret@git.test/team/common", None),
    ],
)
def test_a_submodule_url_resolves_against_its_parent(url: str, found: str | None) -> None:
    assert repository_location(url, PARENT) == found


def test_one_repository_has_one_place_by_all_its_urls() -> None:
    urls = ["ssh://git@git.test:2222/team/shop.git", "https://git.test/team/shop"]
    assert {repository_location(url, PARENT) for url in urls} == {"git.test/team/shop"}


def followed(id: str, url: str, **fields: Any) -> RepositorySpec:
    """A followed repository."""
    return RepositorySpec(RepositoryId(id), url, frozenset(), **fields)


def test_the_same_repository_of_the_project_is_found_in_any_order() -> None:
    """One project follows it by https and by ssh; another project and a registry do not count."""
    parent = followed("shop", "https://git.test/team/shop.git")
    url = "https://git.test/team/common"
    specs = [
        followed("c", url),
        followed("b", "ssh://git@git.test/team/common.git"),
        followed("a", url, project="other"),
        followed("0", url, kind=RepositoryKind.HELM),
    ]
    for order in (specs, specs[::-1]):
        found = find_followed("../common.git", parent, {spec.id: spec for spec in order})
        assert found is not None and found.id == "b"
    assert find_followed("../other", parent, {spec.id: spec for spec in specs}) is None
    assert find_followed("file:///team/common", parent, {specs[0].id: specs[0]}) is None


def test_a_pointer_is_known_by_its_first_line() -> None:
    assert parse_pointer(POINTER) == Pointer(OID, 12)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"a: 1\n",
        POINTER.replace(b"sha256", b"md5"),
        POINTER + b"x" * 1024,
        POINTER[:60],
        POINTER.replace(b"size", b"length"),
        POINTER.replace(b"version", b"# version"),
    ],
)
def test_other_files_are_no_pointers(data: bytes) -> None:
    assert parse_pointer(data) is None
