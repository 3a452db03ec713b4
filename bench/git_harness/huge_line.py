"""Program that fetches a line of 1 GB, which is rejected; arguments: repository URL, folder.

It prints the peak memory of git and of itself in megabytes, the seconds of the fetch, and the
reason of the rejection.
"""

import asyncio
import hashlib
import resource
import struct
import subprocess
import sys
import time
import zlib
from pathlib import Path

from core.errors import Invalid
from core.identity import RepositoryId
from core.runtime.clock import SystemClock
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from towline.demo.git_server import ServedRepository

SIZE = 1 << 30
_PART = b"x" * (1 << 20)


def push(repository: ServedRepository) -> None:
    """Creates a branch `huge` with a one-line file `web/b.yaml`, without holding it in memory."""
    packer, sha = zlib.compressobj(6), hashlib.sha1(b"blob %d\0" % SIZE)
    body = b""
    for _ in range(SIZE // len(_PART)):
        sha.update(_PART)
        body += packer.compress(_PART)
    pack = b"PACK" + struct.pack(">II", 2, 1) + _head(3, SIZE) + body + packer.flush()
    _git(repository, "index-pack", "--stdin", stdin=pack + hashlib.sha1(pack).digest())
    web = _git(repository, "mktree", stdin=f"100644 blob {sha.hexdigest()}\tb.yaml\n".encode())
    root = _git(repository, "mktree", stdin=f"040000 tree {web}\tweb\n".encode())
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    repository.point("refs/heads/huge", _git(repository, *who, "commit-tree", root, "-m", "Huge"))


def _git(repository: ServedRepository, *arguments: str, stdin: bytes = b"") -> str:
    command = ["git", f"--git-dir={repository.path}", *arguments]
    done = subprocess.run(command, input=stdin, capture_output=True, check=True)
    return done.stdout.decode().strip()


def _head(kind: int, size: int) -> bytes:
    first, rest = kind << 4 | size & 15, size >> 4
    found = [first]
    while rest:
        found[-1] |= 0x80
        found.append(rest & 0x7F)
        rest >>= 7
    return bytes(found)


async def main(url: str, folder: str) -> None:
    """Fetches main, then the line, then tries to read it."""
    mirror = GitMirror(Path(folder), MirrorOptions(), SystemClock())
    await mirror.open()
    spec = RepositorySpec(RepositoryId("huge"), url, frozenset({"main"}))
    sha, seconds = "", 0.0
    for branch in ("main", "huge"):
        ref = f"refs/heads/{branch}"
        sha = (await mirror.lister.list_refs(spec, [ref]))[ref]
        started = time.perf_counter()
        await mirror.clones.fetch(spec, {"m": sha})
        seconds = time.perf_counter() - started
    record = await mirror.reader.commit(spec, sha)
    files = await mirror.reader.walk(spec, record.tree if record else "")
    try:
        await mirror.reader.blobs(spec, [entry.id for entry in files.values()])
    except Invalid as error:
        why = error.message
    else:
        raise RuntimeError("the line was read")
    await mirror.close()
    git = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024
    print(git, _own_peak(), seconds, why)


def _own_peak() -> float:
    """Peak memory from proc(5), as the value of wait(2) starts with the parent's size."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
