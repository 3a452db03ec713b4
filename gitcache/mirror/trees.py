"""Reads commits, trees and files of the clones; caches parsed trees by id."""

import os
from collections import OrderedDict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from core.errors import Invalid, Unavailable
from core.spec.source import RepositorySpec
from gitcache.domain.commits import CommitRecord, parse_commit
from gitcache.domain.submodules import MODULES_FILE, parse_modules
from gitcache.domain.trees import SUBMODULE, TREE, Entry, check_entry_name
from gitcache.mirror.catfile import Info, OpenClones
from gitcache.mirror.clones import GitClones
from gitcache.mirror.lfs import LargeFiles
from gitcache.mirror.parsed_trees import ParsedTrees, Tree
from gitcache.mirror.submodules import Submodules

Level = Mapping[str, Sequence[tuple[str, str]]]
CloneVersion = tuple[int, int]

_MAX_CACHE_LOOKUPS = 16
_MAX_TREE_BYTES = 16 << 20
_MAX_COMMIT_BYTES = 1 << 20
_MAX_PREFETCHED_FILES = 200_000
_MAX_CHECKED_FOLDERS = 200_000
_MAX_CACHED_COMMITS = 1_000
_MAX_CACHED_COMMIT_BYTES = 4096
"""Maximum size of a cached commit; signed ones have about 1 kB."""


@dataclass(frozen=True, slots=True)
class TreeLimits:
    """Limits of a reader of trees.

    `files`, `total_bytes` and `depth` limit one walk or read. `cached_entries` is the number of
    cached tree entries (about 300 bytes each), `open_clones` the number of open clones.
    """

    files: int
    total_bytes: int
    depth: int = 64
    cached_entries: int = 45_000
    open_clones: int = 8


class _Commit(NamedTuple):
    """A commit, parsed and as git stores it."""

    record: CommitRecord
    data: bytes


class GitTrees:
    """Implements `TreeReader` for all clones."""

    def __init__(
        self,
        clones: GitClones,
        limits: TreeLimits,
        large_files: LargeFiles,
        submodules: Submodules,
    ) -> None:
        self._clones = clones
        self._checked_folders: set[tuple[int, str]] = set()
        self._large_files = large_files
        self._submodules = submodules
        self._limits = limits
        self._open_clones = OpenClones(limits.open_clones)
        self._parsed = ParsedTrees(limits.cached_entries)
        self._commits: OrderedDict[tuple[CloneVersion, str], _Commit] = OrderedDict()

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Implements `TreeReader.commit`."""
        commit = await self._read_commit(self._clones.path(spec), sha)
        if commit is None:
            return None
        if spec.submodules:
            await self._remember_submodules(spec, commit.record.tree)
        return commit.record

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes:
        """Implements `TreeReader.commit_object`."""
        commit = await self._read_commit(self._clones.path(spec), sha)
        if commit is None:
            raise Unavailable(f"commit {sha[:12]} is no longer in the local copy")
        return commit.data

    async def _read_commit(self, clone: Path, sha: str) -> _Commit | None:
        if (version := _clone_version(clone)) is None:
            return None
        if (cached := self._commits.get((version, sha))) is not None:
            return cached
        if (data := await self._commit_bytes(clone, sha)) is None:
            return None
        commit = _Commit(parse_commit(sha, data), data)
        if len(data) <= _MAX_CACHED_COMMIT_BYTES:
            self._commits[version, sha] = commit
        if len(self._commits) > _MAX_CACHED_COMMITS:
            self._commits.popitem(last=False)
        return commit

    async def _commit_bytes(self, clone: Path, sha: str) -> bytes | None:
        async with self._open_clones.open_reader(clone) as objects:
            (info,) = await objects.infos([sha])
            if info is None:
                return None
            if info.kind != "commit" or info.size > _MAX_COMMIT_BYTES:
                raise Invalid(f"{sha} is not a commit")
            (data,) = await objects.contents([sha])
        return data

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """Implements `TreeReader.ids`; reads each parent once for all paths below it."""
        if (
            len(paths) <= _MAX_CACHE_LOOKUPS
            and (cached := self._cached_entries(tree, paths)) is not None
        ):
            return cached
        found: dict[str, Entry | None] = {"": Entry(TREE, tree)}
        for level in _levels(frozenset(paths)):
            await self._find_children(spec, level, found)
        return {path: found[path] for path in paths}

    def _cached_entries(
        self, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None] | None:
        """Returns the entries if all trees on the way are cached, which is the usual case."""
        found: dict[str, Entry | None] = {}
        for path in paths:
            entry: Entry | None = Entry(TREE, tree)
            for name in path.split("/") if path else ():
                inside = self._parsed.get(entry.id) if entry and entry.is_tree else {}
                if inside is None:
                    return None
                entry = inside.get(name)
            found[path] = entry
        return found

    async def _find_children(
        self, spec: RepositorySpec, level: Level, found: dict[str, Entry | None]
    ) -> None:
        """Finds paths whose parents have been found."""
        parents = [(parent, found[parent]) for parent in level]
        path_by_tree = {
            entry.id: parent for parent, entry in parents if entry is not None and entry.is_tree
        }
        trees = await self._read_trees(spec, path_by_tree)
        for parent, entry in parents:
            inside = trees[entry.id] if entry is not None and entry.is_tree else {}
            found.update([(path, inside.get(name)) for path, name in level[parent]])

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """Implements `TreeReader.walk`; skips submodules unless the repository enables them."""
        files: dict[str, Entry] = {}
        level = {"": tree}
        depth = 0
        while level:
            depth += 1
            if depth > self._limits.depth:
                raise Invalid(f"the folder is more than {self._limits.depth} levels deep")
            trees = await self._read_trees(spec, set(level.values()))
            next_level: dict[str, str] = {}
            for prefix, tree_id in level.items():
                if len(files) + len(next_level) + len(trees[tree_id]) > self._limits.files:
                    raise Invalid(f"the folder has more than {self._limits.files:,} files")
                for name, entry in trees[tree_id].items():
                    check_entry_name(name)
                    if entry.is_tree:
                        next_level[f"{prefix}{name}/"] = entry.id
                    elif entry.mode != SUBMODULE:
                        files[prefix + name] = entry
                    elif spec.submodules:
                        next_level[f"{prefix}{name}/"] = await self._submodule_tree(
                            spec, prefix + name, entry
                        )
            level = next_level
        return files

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Implements `TreeReader.folders`; reads one level at a time and no files."""
        folders: list[str] = []
        level = {"": tree}
        for _ in range(min(depth, self._limits.depth)):
            trees = await self._read_trees(spec, set(level.values()))
            next_level: dict[str, str] = {}
            for prefix, tree_id in level.items():
                for name, entry in trees[tree_id].items():
                    if entry.is_tree:
                        check_entry_name(name)
                        next_level[f"{prefix}{name}/"] = entry.id
            folders += [path.removesuffix("/") for path in next_level]
            if len(folders) > self._limits.files:
                raise Invalid(f"there are more than {self._limits.files:,} folders")
            level = next_level
        return folders

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Implements `TreeReader.blobs`; checks sizes before it reads."""
        blob_ids = list(dict.fromkeys(ids))
        async with self._open_clones.open_reader(self._clones.path(spec)) as objects:
            infos = await objects.infos(blob_ids)
            missing = [blob for blob, info in zip(blob_ids, infos, strict=True) if info is None]
            if missing:
                await self._clones.complete(spec, missing)
                infos = await objects.infos(blob_ids)
            total = _total_size(infos, "blob", "file")
            if total > self._limits.total_bytes:
                raise Invalid(
                    f"the folder's files have {total:,} bytes; "
                    f"the limit is {self._limits.total_bytes:,}"
                )
            data = await objects.contents(blob_ids)
        return await self._large_files.resolve(spec, dict(zip(blob_ids, data, strict=True)))

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Implements `TreeReader.prefetch`; checks each folder only once."""
        if not self._clones.is_lean(spec):
            return
        # A new clone at the same path has other files: identify it by its inode.
        clone = self._clones.path(spec).stat().st_ino
        entries = await self.ids(spec, tree, paths)
        used = [entry for entry in entries.values() if entry is not None]
        checked, files = await self._unchecked_files(
            spec, clone, {entry.id for entry in used if entry.is_tree}
        )
        files |= {entry.id for entry in used if entry.is_file}
        async with self._open_clones.open_reader(self._clones.path(spec)) as objects:
            blob_ids = list(files)
            infos = await objects.infos(blob_ids)
        missing = [blob for blob, info in zip(blob_ids, infos, strict=True) if info is None]
        if missing:
            await self._clones.complete(spec, missing)
        if len(self._checked_folders) > _MAX_CHECKED_FOLDERS:
            self._checked_folders.clear()
        self._checked_folders |= {(clone, tree_id) for tree_id in checked}

    async def _unchecked_files(
        self, spec: RepositorySpec, clone: int, trees: set[str]
    ) -> tuple[set[str], set[str]]:
        """Returns the unchecked trees at and below some trees, and their files."""
        checked: set[str] = set()
        files: set[str] = set()
        level = trees
        while level and len(files) < _MAX_PREFETCHED_FILES:
            level = {
                tree_id for tree_id in level if (clone, tree_id) not in self._checked_folders
            } - checked
            trees_by_id = await self._read_trees(spec, level)
            checked |= level
            entries = [entry for tree in trees_by_id.values() for entry in tree.values()]
            files |= {
                entry.id for entry in entries if not entry.is_tree and entry.mode != SUBMODULE
            }
            level = {entry.id for entry in entries if entry.is_tree}
        return checked, files

    async def release(self, spec: RepositorySpec) -> None:
        """Implements `TreeReader.release`."""
        await self._open_clones.close(self._clones.path(spec))

    async def close(self) -> None:
        """Ends all processes."""
        await self._open_clones.close_all()

    async def _remember_submodules(self, spec: RepositorySpec, tree: str) -> None:
        """Stores the URLs of a commit's submodules for later reads."""
        file = (await self.ids(spec, tree, [MODULES_FILE]))[MODULES_FILE]
        if file is None or not file.is_file:
            return
        modules = parse_modules((await self.blobs(spec, [file.id]))[file.id])
        entries = await self.ids(spec, tree, modules.keys())
        commits = {
            path: entry.id for path, entry in entries.items() if entry and entry.mode == SUBMODULE
        }
        self._submodules.remember(spec, modules, commits)

    async def _submodule_tree(self, spec: RepositorySpec, path: str, entry: Entry) -> str:
        """Returns the root tree of a submodule's commit; fetches it if needed."""
        plain = replace(spec, submodules=False)
        record = await self.commit(plain, entry.id)
        if record is None:
            await self._submodules.fetch_commit(spec, path, entry.id)
            record = await self.commit(plain, entry.id)
        if record is None:
            raise Unavailable(f"the submodule {path[:200]!r} is not in the local copy")
        return record.tree

    async def _read_trees(
        self, spec: RepositorySpec, ids: Collection[str] | Mapping[str, str]
    ) -> Mapping[str, Tree]:
        """Returns trees by id; a mapping as `ids` also gives their paths."""
        path_by_tree = ids if isinstance(ids, Mapping) else {}
        trees = {
            tree_id: tree for tree_id in ids if (tree := self._parsed.get(tree_id)) is not None
        }
        uncached = [tree_id for tree_id in ids if tree_id not in trees]
        if uncached:
            async with self._open_clones.open_reader(self._clones.path(spec)) as objects:
                size = _total_size(await objects.infos(uncached), "tree", "folder")
                if size > _MAX_TREE_BYTES:
                    raise Invalid(f"the folders' lists of files have {size:,} bytes")
                contents = await objects.contents(uncached)
            for tree_id, data in zip(uncached, contents, strict=True):
                location = (spec.id, path_by_tree[tree_id]) if tree_id in path_by_tree else None
                # Another task may have parsed the same tree meanwhile.
                trees[tree_id] = self._parsed.get(tree_id) or self._parsed.parse(
                    tree_id, data, location
                )
        return trees


def _clone_version(clone: Path) -> CloneVersion | None:
    """Returns a value that changes when a clone may have lost objects; None without a clone."""
    try:
        inode = os.stat(clone).st_ino
    except FileNotFoundError:
        return None
    try:
        return inode, os.stat(f"{clone}/objects/pack").st_mtime_ns
    except FileNotFoundError:
        return inode, 0


@lru_cache(8)
def _levels(paths: frozenset[str]) -> list[Level]:
    """Groups the paths and their parents by level, top first: parent to paths and names.

    Cached, because successive commits are queried for the same folders.
    """
    levels: dict[int, dict[str, list[tuple[str, str]]]] = {}
    visited: set[str] = {""}
    pending = set(paths) - visited
    while pending:
        visited |= pending
        parents = set()
        for path in pending:
            parent, _, name = path.rpartition("/")
            depth = path.count("/")
            levels.setdefault(depth, {}).setdefault(parent, []).append((path, name))
            parents.add(parent)
        pending = parents - visited
    return [levels[depth] for depth in sorted(levels)]


def _total_size(infos: Iterable[Info | None], kind: str, name: str) -> int:
    total = 0
    for info in infos:
        if info is None or info.kind != kind:
            raise Unavailable(f"a {name} of this commit is missing in the local copy")
        total += info.size
    return total
