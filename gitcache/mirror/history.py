"""History of commits, from a temporary clone without folders and files."""

import asyncio
import contextlib
import shutil
import uuid
from collections.abc import AsyncGenerator, Collection
from pathlib import Path

from core.errors import Unavailable
from core.remotes import parse_remote
from core.spec.source import RepositorySpec
from gitcache.mirror.clone import PINS, Clone, pin_refspecs
from gitcache.mirror.disk import Disk
from gitcache.mirror.lean_fetch import LeanFetch
from gitcache.mirror.packs import PackUnavailable
from gitcache.mirror.remote_git import RemoteGit
from gitcache.mirror.runner import GitError, GitRunner

MAX_COMMITS = 1000
_MAX_DEPTH = 10_000
_SECONDS = 120.0
_NO_TREES = "tree:0"
_TIP = "tip"


class HistoryReader:
    """Counts and finds commits. Clones of the git cache have no history: each call fetches it."""

    def __init__(
        self,
        root: Path,
        runner: GitRunner,
        git: RemoteGit,
        lean: LeanFetch,
        disk: Disk,
        *,
        max_commits: int = MAX_COMMITS,
    ) -> None:
        self._root = root
        self._runner = runner
        self._git = git
        self._lean = lean
        self._disk = disk
        self._max_commits = max_commits

    async def count(
        self, spec: RepositorySpec, base: str, tip: str, *, seconds: float
    ) -> int | None:
        """Returns the number of commits since `base` in the history of `tip`, at most 1,000.

        Returns None if `base` is not part of it. Raises Unavailable if the server sends no commits
        without files, or not in time.
        """
        if base == tip:
            return 0
        async with self._history(spec, [tip], self._max_commits + 1, seconds) as clone:
            if not await _is_pinned(clone, base):
                return self._max_commits if clone.shallow_commits() else None
            limit = f"--max-count={self._max_commits}"
            return int(await clone.git("rev-list", "--count", limit, f"{base}..{tip}"))

    async def contains(self, spec: RepositorySpec, commit: str, tips: Collection[str]) -> bool:
        """Implements `CommitHistory.contains`, for the last 10,000 commits of each tip."""
        async with self._history(spec, tips, _MAX_DEPTH, _SECONDS) as clone:
            return await _is_pinned(clone, commit)

    @contextlib.asynccontextmanager
    async def _history(
        self, spec: RepositorySpec, tips: Collection[str], depth: int, seconds: float
    ) -> AsyncGenerator[Clone]:
        """Fetches the commits of a history, without folders, into a clone of its own. Unavailable,
        also if git fails in the block.
        """
        await self._disk.check_space()
        clone = Clone(self._root / f"tmp-{uuid.uuid4().hex}", self._runner)
        try:
            await clone.init(sha256=any(len(tip) == 64 for tip in tips))
            await self._fetch(spec, clone, tips, depth, seconds)
            yield clone
        except (GitError, PackUnavailable) as error:
            raise Unavailable(f"the history of {spec.url} cannot be read: {error}") from error
        finally:
            await asyncio.to_thread(shutil.rmtree, clone.path, True)

    async def _fetch(
        self, spec: RepositorySpec, clone: Clone, tips: Collection[str], depth: int, seconds: float
    ) -> None:
        wants = {f"{_TIP}{number}": tip for number, tip in enumerate(tips)}
        if parse_remote(spec.url).is_http:
            await self._lean.fetch(spec, clone, wants, depth=depth, filter=_NO_TREES)
            return
        limits = (f"--depth={depth}", f"--filter={_NO_TREES}")
        await self._git.fetch(spec, clone.path, pin_refspecs(wants), *limits, seconds=seconds)


async def _is_pinned(clone: Clone, commit: str) -> bool:
    """Reports whether a clone has a commit, which is then part of the history of a pin."""
    answer = await clone.git("cat-file", "--batch-check", stdin=f"{commit}\n".encode())
    if not answer.startswith(f"{commit} commit "):
        return False
    return bool(await clone.git("for-each-ref", f"--contains={commit}", PINS))
