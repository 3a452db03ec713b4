"""Folders that are made to exhaust whoever reads them: refused alone, and before they are read."""

import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from core.errors import Invalid
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.mirror.trees import GitTrees
from tests.integration.gitcache.hostile import blob, tree
from towline.demo.git_server import GitServer, ServedRepository

SPEC = RepositorySpec(RepositoryId("shop"), "https://git.test/shop", frozenset())
Entry = tuple[str, str, str]


def many_files(repository: ServedRepository) -> list[Entry]:
    """100,000 names for one file."""
    one = blob(repository, b"")
    return [("100644", f"f{number:06}.yaml", one) for number in range(100_000)]


def one_line(repository: ServedRepository) -> list[Entry]:
    """One line beyond all that may be read, small on the wire."""
    return [("100644", "a.yaml", blob(repository, b"a: " + b"x" * (2 << 20)))]


def deep(repository: ServedRepository) -> list[Entry]:
    """A hundred folders, one in the other."""
    inner = tree(repository, ("100644", "a.yaml", blob(repository, b"a: 1")))
    for _ in range(100):
        inner = tree(repository, ("40000", "d", inner))
    return [("40000", "d", inner)]


def exponential(repository: ServedRepository) -> list[Entry]:
    """A git bomb: ten times the same folder, ten levels deep."""
    inner = tree(repository, ("100644", "a.yaml", blob(repository, b"a: 1")))
    for _ in range(10):
        inner = tree(repository, *(("40000", f"d{number}", inner) for number in range(10)))
    return [("40000", "d", inner)]


@pytest.mark.parametrize(
    ("make", "reason"),
    [
        (many_files, "more than 10,000 files"),
        (one_line, "bytes; the limit is 1,048,576"),
        (deep, "levels deep"),
        (exponential, "more than 10,000 files"),
    ],
)
async def test_a_folder_beyond_bounds_is_refused_alone(
    git_server: GitServer,
    tmp_path: Path,
    make: Callable[[ServedRepository], list[Entry]],
    reason: str,
) -> None:
    repository = git_server.create_repository("shop")
    web = tree(repository, *make(repository))
    fine = tree(repository, ("100644", "a.yaml", blob(repository, b"a: 1")))
    mirror = GitMirror(tmp_path, MirrorOptions(total_bytes=1 << 20), SystemClock())
    mirror.clones.path(SPEC).symlink_to(repository.path)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    try:
        with pytest.raises(Invalid, match=reason):
            await read(mirror.reader, web)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 200 << 10
        assert await read(mirror.reader, fine) == [b"a: 1"]
    finally:
        await mirror.close()


async def read(reader: GitTrees, folder: str) -> list[bytes]:
    """All files of a folder, as a render reads them."""
    entries = await reader.walk(SPEC, folder)
    found = await reader.blobs(SPEC, {entry.id for entry in entries.values()})
    return list(found.values())
