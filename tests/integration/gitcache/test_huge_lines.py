"""A line that is huge once unpacked: what git takes of memory to fetch it, beside the worker's."""

import subprocess
import sys
from pathlib import Path

from towline.demo.gitserver import GitServer

_LINE = 160 << 20
_MOST = 110
_FETCH = """
import asyncio, resource, sys
from pathlib import Path
from fleet.identity import RepositoryId
from fleet.runtime.clock import SystemClock
from fleet.source import RepositorySpec
from gitcache.mirror.mirror import Mirror, MirrorOptions

async def main(url, folder):
    mirror = Mirror(Path(folder), MirrorOptions(), SystemClock())
    await mirror.open()
    spec = RepositorySpec(RepositoryId("shop"), url, frozenset({"main"}))
    for branch in ("main", "huge"):
        ref = f"refs/heads/{branch}"
        await mirror.clones.fetch(spec, {"m": (await mirror.lister.list_refs(spec, [ref]))[ref]})
    await mirror.close()
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)

asyncio.run(main(*sys.argv[1:]))
"""


def test_a_pack_of_some_kilobytes_cannot_make_git_fill_the_memory(
    git_server: GitServer, tmp_path: Path
) -> None:
    """Large files stream to disk; who reads them is stopped by the bounds of a render."""
    repository = git_server.create_repository("shop")
    repository.commit({"web/a.yaml": "a: 1\n"})
    huge = b"a: " + b"x" * _LINE
    repository.commit({"web/a.yaml": "a: 1\n", "web/b.yaml": huge}, branch="huge")
    command = [sys.executable, "-c", _FETCH, repository.url, str(tmp_path / "home")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert int(done.stdout.split()[-1]) < _MOST
