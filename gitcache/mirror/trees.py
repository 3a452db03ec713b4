"""Reads commits, trees and files of the clones; caches parsed trees by id."""

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

from core.errors import Invalid, Unavailable
from core.spec.source import RepositorySpec
from gitcache.domain.commits import CommitRecord, parse_commit
from gitcache.domain.submodules import MODULES_FILE, parse_modules
from gitcache.domain.trees import SUBMODULE, TREE, Entry, check_entry_name
from gitcache.mirror.catfile import Info, OpenClones
from gitcache.mirror.lfs import LargeFiles
from gitcache.mirror.parsed_trees import ParsedTrees, Tree
from gitcache.mirror.submodules import Submodules

Level = Mapping[str, Sequence[tuple[str, str]]]
Condition = tuple[int, int]
Complete = Callable[[RepositorySpec, Collection[str]], Awaitable[None]]

_FEW = 16
_MAX_TREE_BYTES = 16 << 20
_MAX_COMMIT_BYTES = 1 << 20
_MAX_PREFETCHED_FILES = 200_000
_MAX_CHECKED_FOLDERS = 200_000
_MAX_CACHED_COMMITS = 1_000


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


class GitTrees:
    """Implements `TreeReader` for all clones.

    `complete` fetches the missing files of a lean clone, `large` resolves Git LFS pointers, and
    `submodules` fetches the commits of submodules.
    """

    def __init__(
        self,
        path_of: Callable[[RepositorySpec], Path],
        limits: TreeLimits,
        *,
        complete: Complete | None = None,
        is_lean: Callable[[RepositorySpec], bool] = lambda _: False,
        large: LargeFiles | None = None,
        submodules: Submodules | None = None,
    ) -> None:
        self._path_of = path_of
        self._complete = complete
        self._is_lean = is_lean
        self._looked_through: set[tuple[int, str]] = set()
        self._large = large
        self._submodules = submodules
        self._limits = limits
        self._open = OpenClones(limits.open_clones)
        self._parsed = ParsedTrees(limits.cached_entries)
        self._commits: OrderedDict[tuple[Condition, str], CommitRecord] = OrderedDict()

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """Implements `TreeReader.commit`."""
        clone = self._path_of(spec)
        if (condition := _condition(clone)) is None:
            return None
        record = self._commits.get((condition, sha)) or await self._read_commit(clone, sha)
        if record is None:
            return None
        self._commits[condition, sha] = record
        if len(self._commits) > _MAX_CACHED_COMMITS:
            self._commits.popitem(last=False)
        if spec.submodules:
            await self._learn_submodules(spec, record.tree)
        return record

    async def commit_object(self, spec: RepositorySpec, sha: str) -> bytes | None:
        """Implements `TreeReader.commit_object`."""
        return await self._commit_bytes(self._path_of(spec), sha)

    async def _read_commit(self, clone: Path, sha: str) -> CommitRecord | None:
        data = await self._commit_bytes(clone, sha)
        return None if data is None else parse_commit(sha, data)

    async def _commit_bytes(self, clone: Path, sha: str) -> bytes | None:
        async with self._open.reading(clone) as objects:
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
        if len(paths) <= _FEW and (known := self._among_parsed(tree, paths)) is not None:
            return known
        found: dict[str, Entry | None] = {"": Entry(TREE, tree)}
        for level in _levels(frozenset(paths)):
            await self._descend(spec, level, found)
        return {path: found[path] for path in paths}

    def _among_parsed(self, tree: str, paths: Collection[str]) -> Mapping[str, Entry | None] | None:
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

    async def _descend(
        self, spec: RepositorySpec, level: Level, found: dict[str, Entry | None]
    ) -> None:
        """Finds paths whose parents have been found."""
        parents = [(parent, found[parent]) for parent in level]
        places = {
            entry.id: parent for parent, entry in parents if entry is not None and entry.is_tree
        }
        read = await self._trees(spec, places)
        for parent, entry in parents:
            inside = read[entry.id] if entry is not None and entry.is_tree else {}
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
            trees = await self._trees(spec, set(level.values()))
            below: dict[str, str] = {}
            for prefix, tree_id in level.items():
                if len(files) + len(below) + len(trees[tree_id]) > self._limits.files:
                    raise Invalid(f"the folder has more than {self._limits.files:,} files")
                for name, entry in trees[tree_id].items():
                    check_entry_name(name)
                    if entry.is_tree:
                        below[f"{prefix}{name}/"] = entry.id
                    elif entry.mode != SUBMODULE:
                        files[prefix + name] = entry
                    elif spec.submodules:
                        below[f"{prefix}{name}/"] = await self._linked(spec, prefix + name, entry)
            level = below
        return files

    async def folders(self, spec: RepositorySpec, tree: str, depth: int) -> list[str]:
        """Implements `TreeReader.folders`; reads one level at a time and no files."""
        found: list[str] = []
        level = {"": tree}
        for _ in range(min(depth, self._limits.depth)):
            trees = await self._trees(spec, set(level.values()))
            below: dict[str, str] = {}
            for prefix, tree_id in level.items():
                for name, entry in trees[tree_id].items():
                    if entry.is_tree:
                        check_entry_name(name)
                        below[f"{prefix}{name}/"] = entry.id
            found += [path.removesuffix("/") for path in below]
            if len(found) > self._limits.files:
                raise Invalid(f"there are more than {self._limits.files:,} folders")
            level = below
        return found

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """Implements `TreeReader.blobs`; checks sizes before it reads."""
        asked = list(dict.fromkeys(ids))
        async with self._open.reading(self._path_of(spec)) as objects:
            infos = await objects.infos(asked)
            missing = [blob for blob, info in zip(asked, infos, strict=True) if info is None]
            if missing and self._complete is not None:
                await self._complete(spec, missing)
                infos = await objects.infos(asked)
            total = _total_size(infos, "blob", "file")
            if total > self._limits.total_bytes:
                raise Invalid(
                    f"the folder's files have {total:,} bytes; "
                    f"the limit is {self._limits.total_bytes:,}"
                )
            found = await objects.contents(asked)
        contents = dict(zip(asked, found, strict=True))
        return contents if self._large is None else await self._large.resolve(spec, contents)

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """Implements `TreeReader.prefetch`; checks each folder only once."""
        if self._complete is None or not self._is_lean(spec):
            return
        # A new clone at the same path has other files: identify it by its inode.
        clone = self._path_of(spec).stat().st_ino
        found = await self.ids(spec, tree, paths)
        used = [entry for entry in found.values() if entry is not None]
        looked, files = await self._below(
            spec, clone, {entry.id for entry in used if entry.is_tree}
        )
        files |= {entry.id for entry in used if entry.is_file}
        async with self._open.reading(self._path_of(spec)) as objects:
            asked = list(files)
            infos = await objects.infos(asked)
        missing = [blob for blob, info in zip(asked, infos, strict=True) if info is None]
        if missing:
            await self._complete(spec, missing)
        if len(self._looked_through) > _MAX_CHECKED_FOLDERS:
            self._looked_through.clear()
        self._looked_through |= {(clone, tree_id) for tree_id in looked}

    async def _below(
        self, spec: RepositorySpec, clone: int, trees: set[str]
    ) -> tuple[set[str], set[str]]:
        """Returns the unchecked trees at and below some trees, and their files."""
        looked: set[str] = set()
        files: set[str] = set()
        level = trees
        while level and len(files) < _MAX_PREFETCHED_FILES:
            level = {
                tree_id for tree_id in level if (clone, tree_id) not in self._looked_through
            } - looked
            read = await self._trees(spec, level)
            looked |= level
            entries = [entry for tree in read.values() for entry in tree.values()]
            files |= {
                entry.id for entry in entries if not entry.is_tree and entry.mode != SUBMODULE
            }
            level = {entry.id for entry in entries if entry.is_tree}
        return looked, files

    async def release(self, spec: RepositorySpec) -> None:
        """Implements `TreeReader.release`."""
        await self._open.close(self._path_of(spec))

    async def close(self) -> None:
        """Ends all processes."""
        await self._open.close_all()

    async def _learn_submodules(self, spec: RepositorySpec, tree: str) -> None:
        """Stores the URLs of a commit's submodules for later reads."""
        file = (await self.ids(spec, tree, [MODULES_FILE]))[MODULES_FILE]
        if file is None or not file.is_file or self._submodules is None:
            return
        modules = parse_modules((await self.blobs(spec, [file.id]))[file.id])
        found = await self.ids(spec, tree, modules.keys())
        commits = {
            path: entry.id for path, entry in found.items() if entry and entry.mode == SUBMODULE
        }
        self._submodules.learn(spec, modules, commits)

    async def _linked(self, spec: RepositorySpec, path: str, entry: Entry) -> str:
        """Returns the root tree of a submodule's commit; fetches it if needed."""
        plain = replace(spec, submodules=False)
        record = await self.commit(plain, entry.id)
        if record is None and self._submodules is not None:
            await self._submodules.fetch_commit(spec, path, entry.id)
            record = await self.commit(plain, entry.id)
        if record is None:
            raise Unavailable(f"the submodule {path[:200]!r} is not in the local copy")
        return record.tree

    async def _trees(
        self, spec: RepositorySpec, ids: Collection[str] | Mapping[str, str]
    ) -> Mapping[str, Tree]:
        """Returns trees by id; a mapping as `ids` also gives their paths."""
        places = ids if isinstance(ids, Mapping) else {}
        known = {
            tree_id: tree for tree_id in ids if (tree := self._parsed.get(tree_id)) is not None
        }
        unknown = [tree_id for tree_id in ids if tree_id not in known]
        if unknown:
            async with self._open.reading(self._path_of(spec)) as objects:
                size = _total_size(await objects.infos(unknown), "tree", "folder")
                if size > _MAX_TREE_BYTES:
                    raise Invalid(f"the folders' lists of files have {size:,} bytes")
                found = await objects.contents(unknown)
            for tree_id, data in zip(unknown, found, strict=True):
                place = (spec.id, places[tree_id]) if tree_id in places else None
                # Another task may have parsed the same tree meanwhile.
                known[tree_id] = self._parsed.get(tree_id) or self._parsed.parse(
                    tree_id, data, place
                )
        return known


def _condition(clone: Path) -> Condition | None:
    """Changes when a clone may have lost objects: recreated or packed. None without a clone."""
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
    seen: set[str] = {""}
    below = set(paths) - seen
    while below:
        seen |= below
        above = set()
        for path in below:
            parent, _, name = path.rpartition("/")
            depth = path.count("/")
            levels.setdefault(depth, {}).setdefault(parent, []).append((path, name))
            above.add(parent)
        below = above - seen
    return [levels[depth] for depth in sorted(levels)]


def _total_size(infos: Iterable[Info | None], kind: str, name: str) -> int:
    total = 0
    for info in infos:
        if info is None or info.kind != kind:
            raise Unavailable(f"a {name} of this commit is missing in the local copy")
        total += info.size
    return total
