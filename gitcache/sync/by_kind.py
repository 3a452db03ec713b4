"""Ports for both kinds of repositories: git, and chart repositories."""

from collections.abc import Collection, Mapping, Sequence

from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain.objects import CommitRecord, Entry
from gitcache.ports import Clones, FollowedCharts, RefLister, TreeReader


def is_git(spec: RepositorySpec) -> bool:
    """True for a git repository."""
    return spec.kind is RepositoryKind.GIT


class RefListerByKind:
    """Implements `RefLister` for both kinds."""

    def __init__(self, git: RefLister, charts: FollowedCharts) -> None:
        self._git = git
        self._charts = charts

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`."""
        lister = self._git if is_git(spec) else self._charts
        return await lister.list_refs(spec, prefixes)


class ClonesByKind:
    """Implements `Clones` for both kinds; chart archives are in the content store."""

    def __init__(self, git: Clones, charts: FollowedCharts) -> None:
        self._git = git
        self._charts = charts

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.fetch`."""
        await (self._git if is_git(spec) else self._charts).fetch(spec, wants)

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.pin`."""
        await (self._git if is_git(spec) else self._charts).pin(spec, wants)

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """Implements `Clones.pins`."""
        return await (self._git if is_git(spec) else self._charts).pins(spec)

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Implements `Clones.complete`."""
        if is_git(spec):
            await self._git.complete(spec, blobs)

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        """Implements `Clones.graft`."""
        await self._git.graft(spec, other, sha)

    async def size(self, spec: RepositorySpec) -> int | None:
        """Implements `Clones.size`."""
        return await self._git.size(spec) if is_git(spec) else None

    async def maintain(self, spec: RepositorySpec) -> None:
        """Implements `Clones.maintain`."""
        if is_git(spec):
            await self._git.maintain(spec)

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """Implements `Clones.keep_only`."""
        return await self._git.keep_only([spec for spec in specs if is_git(spec)])


class TreeReaderByKind:
    """Implements `TreeReader` for both kinds."""

    def __init__(self, git: TreeReader, charts: FollowedCharts) -> None:
        self._git = git
        self._charts = charts

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Implements `TreeReader.commit`."""
        return await (self._git if is_git(spec) else self._charts).commit(spec, sha)

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes | None:
        """Implements `TreeReader.commit_object`."""
        return await self._git.commit_object(spec, sha) if is_git(spec) else None

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """Implements `TreeReader.ids`."""
        return await (self._git if is_git(spec) else self._charts).ids(spec, tree, paths)

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Implements `TreeReader.folders`."""
        return await self._git.folders(spec, tree, depth) if is_git(spec) else []

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """Implements `TreeReader.walk`."""
        return await self._git.walk(spec, tree) if is_git(spec) else {}

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Implements `TreeReader.blobs`."""
        return await self._git.blobs(spec, ids) if is_git(spec) else {}

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Implements `TreeReader.prefetch`."""
        if is_git(spec):
            await self._git.prefetch(spec, tree, paths)

    async def release(self, spec: RepositorySpec) -> None:
        """Implements `TreeReader.release`."""
        if is_git(spec):
            await self._git.release(spec)
