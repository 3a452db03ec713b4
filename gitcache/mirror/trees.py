"""Reads commits, trees and files of the clones; a tree is parsed once, its id never changes."""

import os
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from fleet.errors import Invalid, Unavailable
from fleet.source import RepositorySpec
from gitcache.domain.objects import (
    SUBMODULE,
    TREE,
    CommitRecord,
    Entry,
    check_entry_name,
    parse_commit,
)
from gitcache.domain.submodules import MODULES_FILE, parse_modules
from gitcache.mirror.catfile import Info, OpenClones
from gitcache.mirror.largefiles import LargeFiles
from gitcache.mirror.parsedtrees import ParsedTrees, Tree
from gitcache.mirror.submodules import Submodules

Level = Mapping[str, Sequence[tuple[str, str]]]
Condition = tuple[int, int]
Complete = Callable[[RepositorySpec, Collection[str]], Awaitable[None]]

_FEW = 16
_MAX_TREE_BYTES = 16 << 20
_MAX_COMMIT_BYTES = 1 << 20
_MOST_MISSING = 200_000
_MOST_REMEMBERED = 200_000
_MOST_COMMITS = 1_000


class GitTrees:
    """The reader over all clones.

    `files`, `total_bytes` and `depth` bound one walk or one reading of files; `memory` is the
    number of tree entries kept parsed (about 300 bytes each); `processes` the number of clones
    held open. `complete` fetches files that a copy has left out, as it may if it `is_lean`,
    `large` those of Git LFS, `submodules` the commits of other repositories.
    """

    def __init__(
        self,
        path_of: Callable[[RepositorySpec], Path],
        *,
        files: int,
        total_bytes: int,
        complete: Complete | None = None,
        is_lean: Callable[[RepositorySpec], bool] = lambda _: False,
        large: LargeFiles | None = None,
        submodules: Submodules | None = None,
        depth: int = 64,
        memory: int = 45_000,
        processes: int = 8,
    ) -> None:
        self._path_of = path_of
        self._complete = complete
        self._is_lean = is_lean
        self._looked_through: set[tuple[int, str]] = set()
        self._large = large
        self._submodules = submodules
        self._max_files = files
        self._max_bytes = total_bytes
        self._max_depth = depth
        self._open = OpenClones(processes)
        self._parsed = ParsedTrees(memory)
        self._commits: OrderedDict[tuple[Condition, str], CommitRecord] = OrderedDict()

    async def commit(self, spec: RepositorySpec, sha: str) -> CommitRecord | None:
        """As `TreeReader.commit`."""
        clone = self._path_of(spec)
        if (condition := _condition(clone)) is None:
            return None
        record = self._commits.get((condition, sha)) or await self._read_commit(clone, sha)
        if record is None:
            return None
        self._commits[condition, sha] = record
        if len(self._commits) > _MOST_COMMITS:
            self._commits.popitem(last=False)
        if spec.submodules:
            await self._learn_submodules(spec, record.tree)
        return record

    async def _read_commit(self, clone: Path, sha: str) -> CommitRecord | None:
        async with self._open.reading(clone) as objects:
            (info,) = await objects.infos([sha])
            if info is None:
                return None
            if info.kind != "commit" or info.size > _MAX_COMMIT_BYTES:
                raise Invalid(f"{sha} is not a commit")
            (data,) = await objects.contents([sha])
        return parse_commit(sha, data)

    async def ids(
        self, spec: RepositorySpec, tree: str, paths: Collection[str]
    ) -> Mapping[str, Entry | None]:
        """As `TreeReader.ids`: parents first, each read once for all that is below it."""
        if len(paths) <= _FEW and (known := self._among_parsed(tree, paths)) is not None:
            return known
        found: dict[str, Entry | None] = {"": Entry(TREE, tree)}
        for level in _levels(frozenset(paths)):
            await self._descend(spec, level, found)
        return {path: found[path] for path in paths}

    def _among_parsed(self, tree: str, paths: Collection[str]) -> Mapping[str, Entry | None] | None:
        """The entries, if all trees on the way are parsed already, as most are mostly."""
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
        """Find paths whose parents have been found."""
        parents = [(parent, found[parent]) for parent in level]
        places = {
            entry.id: parent for parent, entry in parents if entry is not None and entry.is_tree
        }
        read = await self._trees(spec, places)
        for parent, entry in parents:
            inside = read[entry.id] if entry is not None and entry.is_tree else {}
            found.update([(path, inside.get(name)) for path, name in level[parent]])

    async def walk(self, spec: RepositorySpec, tree: str) -> Mapping[str, Entry]:
        """As `TreeReader.walk`; submodules are left out unless the repository has them on."""
        files: dict[str, Entry] = {}
        level = {"": tree}
        depth = 0
        while level:
            depth += 1
            if depth > self._max_depth:
                raise Invalid(f"the folder is more than {self._max_depth} levels deep")
            trees = await self._trees(spec, set(level.values()))
            below: dict[str, str] = {}
            for prefix, tree_id in level.items():
                if len(files) + len(below) + len(trees[tree_id]) > self._max_files:
                    raise Invalid(f"the folder holds more than {self._max_files:,} files")
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
        """As `TreeReader.folders`: a level at a time, no file is looked at."""
        found: list[str] = []
        level = {"": tree}
        for _ in range(min(depth, self._max_depth)):
            trees = await self._trees(spec, set(level.values()))
            below: dict[str, str] = {}
            for prefix, tree_id in level.items():
                for name, entry in trees[tree_id].items():
                    if entry.is_tree:
                        check_entry_name(name)
                        below[f"{prefix}{name}/"] = entry.id
            found += [path.removesuffix("/") for path in below]
            if len(found) > self._max_files:
                raise Invalid(f"there are more than {self._max_files:,} folders")
            level = below
        return found

    async def blobs(self, spec: RepositorySpec, ids: Collection[str]) -> Mapping[str, bytes]:
        """As `TreeReader.blobs`: sizes are checked before anything is read."""
        asked = list(dict.fromkeys(ids))
        async with self._open.reading(self._path_of(spec)) as objects:
            infos = await objects.infos(asked)
            missing = [blob for blob, info in zip(asked, infos, strict=True) if info is None]
            if missing and self._complete is not None:
                await self._complete(spec, missing)
                infos = await objects.infos(asked)
            total = _total_size(infos, "blob", "file")
            if total > self._max_bytes:
                raise Invalid(
                    f"the folder's files have {total:,} bytes; {self._max_bytes:,} at most are read"
                )
            found = await objects.contents(asked)
        contents = dict(zip(asked, found, strict=True))
        return contents if self._large is None else await self._large.resolve(spec, contents)

    async def prefetch(self, spec: RepositorySpec, tree: str, paths: Collection[str]) -> None:
        """As `TreeReader.prefetch`; a folder that was looked through is not looked at again."""
        if self._complete is None or not self._is_lean(spec):
            return
        # Another clone in the same place has other files.
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
        if len(self._looked_through) > _MOST_REMEMBERED:
            self._looked_through.clear()
        self._looked_through |= {(clone, tree_id) for tree_id in looked}

    async def _below(
        self, spec: RepositorySpec, clone: int, trees: set[str]
    ) -> tuple[set[str], set[str]]:
        """Trees at and below some that were not looked through yet, and their files."""
        looked: set[str] = set()
        files: set[str] = set()
        level = trees
        while level and len(files) < _MOST_MISSING:
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
        """As `TreeReader.release`."""
        await self._open.close(self._path_of(spec))

    async def close(self) -> None:
        """End all processes."""
        await self._open.close_all()

    async def _learn_submodules(self, spec: RepositorySpec, tree: str) -> None:
        """Note which URL stands for which commit, for when a folder with it is read."""
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
        """The root tree of a submodule's commit, brought here if need be."""
        plain = replace(spec, submodules=False)
        record = await self.commit(plain, entry.id)
        if record is None and self._submodules is not None:
            await self._submodules.bring(spec, path, entry.id)
            record = await self.commit(plain, entry.id)
        if record is None:
            raise Unavailable(f"the submodule {path[:200]!r} is not in the local copy")
        return record.tree

    async def _trees(
        self, spec: RepositorySpec, ids: Collection[str] | Mapping[str, str]
    ) -> Mapping[str, Tree]:
        """Trees by their ids, which a mapping tells the paths of."""
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
                # Another reader of the same tree may have come first.
                known[tree_id] = self._parsed.get(tree_id) or self._parsed.parse(
                    tree_id, data, place
                )
        return known


def _condition(clone: Path) -> Condition | None:
    """Changes whenever a clone may have lost objects: made anew, or packed. None: there is none."""
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
    """The paths with all their parents, the highest level first: by parent, path and name.

    Remembered, because the same folders are looked for in one commit after the other.
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
