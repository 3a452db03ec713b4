"""Ports for all kinds of repositories: git, charts, and artifacts.

Commits of artifacts are in clones like those of git; only listing and fetching differ.
"""

from collections.abc import Collection, Mapping, Sequence

from core.spec.source import RepositoryKind, RepositorySpec
from gitcache.domain.commits import CommitRecord
from gitcache.domain.trees import Entry
from gitcache.ports import Clones, FollowedArtifacts, FollowedCharts, RefLister, TreeReader


def is_cloned(spec: RepositorySpec) -> bool:
    """True for a repository whose commits are in a clone; charts are in the content store."""
    return spec.kind.has_folders


class RefListerByKind:
    """Implements `RefLister` for all kinds."""

    def __init__(
        self, git: RefLister, charts: FollowedCharts, artifacts: FollowedArtifacts
    ) -> None:
        self._listers: Mapping[RepositoryKind, RefLister] = {
            RepositoryKind.GIT: git,
            RepositoryKind.HELM: charts,
            RepositoryKind.OCI: artifacts,
        }

    async def list_refs(self, spec: RepositorySpec, prefixes: Sequence[str]) -> Mapping[str, str]:
        """Implements `RefLister.list_refs`."""
        return await self._listers[spec.kind].list_refs(spec, prefixes)


class ClonesByKind:
    """Implements `Clones` for all kinds; chart archives are in the content store."""

    def __init__(self, git: Clones, charts: FollowedCharts, artifacts: FollowedArtifacts) -> None:
        self._git = git
        self._charts = charts
        self._artifacts = artifacts

    async def fetch(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.fetch`."""
        if spec.kind is RepositoryKind.OCI:
            await self._artifacts.fetch(spec, wants)
        else:
            await (self._git if is_cloned(spec) else self._charts).fetch(spec, wants)

    async def pin(self, spec: RepositorySpec, wants: Mapping[str, str]) -> None:
        """Implements `Clones.pin`."""
        await (self._git if is_cloned(spec) else self._charts).pin(spec, wants)

    async def pins(self, spec: RepositorySpec) -> Mapping[str, str]:
        """Implements `Clones.pins`."""
        return await (self._git if is_cloned(spec) else self._charts).pins(spec)

    async def complete(self, spec: RepositorySpec, blobs: Collection[str]) -> None:
        """Implements `Clones.complete`."""
        if is_cloned(spec):
            await self._git.complete(spec, blobs)

    async def graft(self, spec: RepositorySpec, other: RepositorySpec, sha: str) -> None:
        """Implements `Clones.graft`."""
        await self._git.graft(spec, other, sha)

    async def size(self, spec: RepositorySpec) -> int | None:
        """Implements `Clones.size`."""
        return await self._git.size(spec) if is_cloned(spec) else None

    async def maintain(self, spec: RepositorySpec) -> None:
        """Implements `Clones.maintain`."""
        if is_cloned(spec):
            await self._git.maintain(spec)

    async def keep_only(self, specs: Collection[RepositorySpec]) -> int:
        """Implements `Clones.keep_only`."""
        return await self._git.keep_only([spec for spec in specs if is_cloned(spec)])


class TreeReaderByKind:
    """Implements `TreeReader` for all kinds."""

    def __init__(self, git: TreeReader, charts: FollowedCharts) -> None:
        self._git = git
        self._charts = charts

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Implements `TreeReader.commit`."""
        return await (self._git if is_cloned(spec) else self._charts).commit(spec, sha)

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes | None:
        """Implements `TreeReader.commit_object`."""
        return await self._git.commit_object(spec, sha) if is_cloned(spec) else None

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """Implements `TreeReader.ids`."""
        return await (self._git if is_cloned(spec) else self._charts).ids(spec, tree, paths)

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Implements `TreeReader.folders`."""
        return await self._git.folders(spec, tree, depth) if is_cloned(spec) else []

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """Implements `TreeReader.walk`."""
        return await self._git.walk(spec, tree) if is_cloned(spec) else {}

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Implements `TreeReader.blobs`."""
        return await self._git.blobs(spec, ids) if is_cloned(spec) else {}

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Implements `TreeReader.prefetch`."""
        if is_cloned(spec):
            await self._git.prefetch(spec, tree, paths)

    async def release(self, spec: RepositorySpec) -> None:
        """Implements `TreeReader.release`."""
        if is_cloned(spec):
            await self._git.release(spec)
