"""Input that is huge once unpacked: memory of git for its fetch, beside the worker's."""

import hashlib
import struct
import subprocess
import sys
import zlib
from pathlib import Path

import pytest

from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.ports import CommitsRejected
from tests.integration.gitcache.hostile import commit, git, tree
from towline.demo.git_server import GitServer

_LINE = b"a: " + b"x" * (100 << 20)
_MOST = 90
_FETCH = """
import asyncio, resource, sys
from pathlib import Path
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions

async def main(url, folder):
    mirror = GitMirror(Path(folder), MirrorOptions(), SystemClock())
    await mirror.open()
    spec = RepositorySpec(RepositoryId("shop"), url, frozenset({"main"}))
    for branch in ("main", "huge"):
        ref = f"refs/heads/{branch}"
        await mirror.clones.fetch(spec, {"m": (await mirror.lister.list_refs(spec, [ref]))[ref]})
    await mirror.close()
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)

asyncio.run(main(*sys.argv[1:]))
"""
_BASE = b"a: " + b"x" * ((8 << 20) - 3)
_COPIES = 24
_MEMORY = 128 << 20


def test_a_pack_of_some_kilobytes_cannot_make_git_fill_the_memory(
    git_server: GitServer, tmp_path: Path
) -> None:
    """Large files stream to disk; who reads them is stopped by the bounds of a render."""
    repository = git_server.create_repository("shop")
    repository.commit({"web/a.yaml": "a: 1\n"})
    git(repository.path, "index-pack", "--stdin", stdin=pack_of(_whole(_LINE)))
    web = tree(repository, ("100644", "b.yaml", _blob_id(_LINE)))
    commit(repository, tree(repository, ("40000", "web", web)), "huge")
    command = [sys.executable, "-c", _FETCH, repository.url, str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < _MOST


async def test_a_delta_that_tells_any_size_is_refused_and_others_are_fetched(
    git_server: GitServer, tmp_path: Path
) -> None:
    """git would build the file in memory, however many times larger than its base it is."""
    repository = git_server.create_repository("shop")
    first = repository.commit({"web/a.yaml": "a: 1\n"})
    git(repository.path, "index-pack", "--stdin", stdin=delta_bomb())
    base, huge = _blob_id(_BASE), _blob_id(_BASE * _COPIES)
    web = tree(repository, ("100644", "a.yaml", base), ("100644", "b.yaml", huge))
    evil = commit(repository, tree(repository, ("40000", "web", web)), "evil")
    last = repository.commit({"web/a.yaml": "a: 2\n"})
    mirror = GitMirror(tmp_path / "home", MirrorOptions(memory=_MEMORY), SystemClock())
    await mirror.open()
    spec = RepositorySpec(RepositoryId("shop"), repository.url, frozenset({"main"}))
    try:
        await mirror.clones.fetch(spec, {"m": first})
        with pytest.raises(CommitsRejected, match=r"more than git\.fetch\.memory"):
            await mirror.clones.fetch(spec, {"e": evil})
        await mirror.clones.fetch(spec, {"m": last})
    finally:
        await mirror.close()


def delta_bomb() -> bytes:
    """A pack of a base, and of a delta that copies all of it again and again."""
    size = len(_BASE)
    copy = bytes([0x80 | 0x70]) + struct.pack("<I", size)[:3]
    delta = _varint(size) + _varint(size * _COPIES) + copy * _COPIES
    like = bytes.fromhex(_blob_id(_BASE))
    return pack_of(_whole(_BASE), _head(7, len(delta)) + like + zlib.compress(delta))


def pack_of(*objects: bytes) -> bytes:
    """A pack (gitformat-pack(5)) of objects that are packed already."""
    pack = b"PACK" + struct.pack(">II", 2, len(objects)) + b"".join(objects)
    return pack + hashlib.sha1(pack).digest()


def _whole(data: bytes) -> bytes:
    """A blob in a pack."""
    return _head(3, len(data)) + zlib.compress(data, 1)


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


def _varint(number: int) -> bytes:
    """Seven bits a byte, the lowest first (gitformat-pack(5))."""
    found = b""
    while number > 0x7F:
        found, number = found + bytes([number & 0x7F | 0x80]), number >> 7
    return found + bytes([number])


def _head(kind: int, size: int) -> bytes:
    """The head of an object in a pack: its kind and size."""
    first, rest = kind << 4 | size & 15, size >> 4
    return bytes([first | 0x80]) + _varint(rest) if rest else bytes([first])
