"""Composes all write operations, for processes without a git cache."""

import asyncio
from collections import defaultdict
from collections.abc import Collection, Sequence
from pathlib import Path

from core.identity import RepositoryId
from core.runtime.clock import Clock
from core.spec.edits import Edit
from core.spec.source import RepositorySpec
from gitcache.mirror.mirror import GitMirror, MirrorOptions
from gitcache.ports import ClusterEgress
from gitcache.write.merge_requests import MergeRequestService
from gitcache.write.writer import CommitWriter

_TAGS = "refs/tags/"
_ALL_TAGS = (_TAGS, f"{_TAGS}*")
"""A ref prefix for protocol version 2, and a pattern for `git ls-remote`."""
_COUNT_SECONDS = 60.0


class GitWriteService(MergeRequestService):
    """Combines `MergeRequestService` with a `CommitWriter` on its own copies in `home`, made on
    first use.

    A commit never waits for fetches of readers, and does not depend on the owner of the
    repository. Callers must call `close`.
    """

    def __init__(
        self, home: Path, options: MirrorOptions, clock: Clock, egress: ClusterEgress | None = None
    ) -> None:
        self._mirror = GitMirror(home, options, clock, egress=egress)
        self._writer = CommitWriter(self._mirror, clock)
        self._opening = asyncio.Lock()
        self._is_open = False
        self._commit_locks: defaultdict[RepositoryId, asyncio.Lock] = defaultdict(asyncio.Lock)
        super().__init__(self._mirror.http, self._mirror.routes)

    async def commit(
        self,
        spec: RepositorySpec,
        branch: str,
        base: str,
        edits: Sequence[Edit],
        author: str,
        message: str,
    ) -> str | None:
        """See `CommitWriter.commit`; commits to the same repository run one after another."""
        await self._ensure_open()
        async with self._commit_locks[spec.id]:
            sha = await self._writer.commit(spec, branch, base, edits, author, message)
            await self._mirror.clones.maintain(spec)
        return sha

    async def delete_branch(self, spec: RepositorySpec, branch: str, author: str) -> bool:
        """See `CommitWriter.delete_branch`."""
        await self._ensure_open()
        async with self._commit_locks[spec.id]:
            return await self._writer.delete_branch(spec, branch, author)

    async def tags(self, spec: RepositorySpec) -> list[str]:
        """Lists the names of all tags. Raises Unavailable, Invalid."""
        listed = await self._mirror.lister.list_refs(spec, _ALL_TAGS)
        return sorted(ref.removeprefix(_TAGS) for ref in listed if ref.startswith(_TAGS))

    async def count_commits(self, spec: RepositorySpec, base: str, tip: str) -> int | None:
        """See `HistoryReader.count`."""
        await self._ensure_open()
        return await self._mirror.history.count(spec, base, tip, seconds=_COUNT_SECONDS)

    async def keep_only(self, specs: Collection[RepositorySpec]) -> None:
        """Deletes the copies of all other repositories."""
        await self._mirror.clones.keep_only(specs)

    async def close(self) -> None:
        """Ends processes and closes connections."""
        await self._mirror.close()

    async def _ensure_open(self) -> None:
        async with self._opening:
            if not self._is_open:
                await self._mirror.open()
                self._is_open = True
