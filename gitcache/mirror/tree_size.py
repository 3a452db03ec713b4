"""Counts the files and folders of a commit, by distinct folders because of git bombs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitcache.domain.commits import parse_commit
from gitcache.domain.trees import Entry, parse_tree
from gitcache.mirror.catfile import CatFile

Tree = Mapping[str, Entry]

_MAX_BYTES = 64 << 20
_AT_ONCE = 1_000


@dataclass(frozen=True, slots=True)
class TreeSize:
    """Number of files and folders of a commit, and of those below paths in use."""

    entries: int
    used: int


async def measure_tree(clone: Path, sha: str, paths: Collection[str], *, most: int) -> TreeSize:
    """Counts up to about `most` entries of a commit. Raises Invalid, Unavailable.

    A folder that appears many times counts once, because it is fetched once.
    """
    objects = CatFile(clone)
    try:
        (data,) = await objects.contents([sha])
        root = parse_commit(sha, data).tree
        trees = await _read(objects, root, most)
    finally:
        await objects.close()
    used = {tree_id for path in paths if (tree_id := _find(trees, root, path)) is not None}
    return TreeSize(_count(trees, {root}), _count(trees, used))


async def _read(objects: CatFile, root: str, most: int) -> dict[str, Tree]:
    """Reads the trees below a root, breadth first, up to about `most` entries."""
    trees: dict[str, Tree] = {}
    waiting, seen, entries = [root], {root}, 0
    while waiting and entries < most:
        batch, waiting = waiting[:_AT_ONCE], waiting[_AT_ONCE:]
        infos = await objects.infos(batch)
        if sum(info.size for info in infos if info) > _MAX_BYTES:
            break
        there = [tree_id for tree_id, info in zip(batch, infos, strict=True) if info is not None]
        for tree_id, data in zip(there, await objects.contents(there), strict=True):
            trees[tree_id] = parse_tree(data, len(tree_id) // 2)
            entries += len(trees[tree_id])
            below = [e.id for e in trees[tree_id].values() if e.is_tree and e.id not in seen]
            seen.update(below)
            waiting += dict.fromkeys(below)
    return trees


def _find(trees: Mapping[str, Tree], root: str, path: str) -> str | None:
    """Finds the tree at a path among the read trees."""
    here = root
    for name in path.split("/") if path else ():
        entry = trees[here].get(name) if here in trees else None
        if entry is None or not entry.is_tree:
            return None
        here = entry.id
    return here


def _count(trees: Mapping[str, Tree], roots: Collection[str]) -> int:
    """Counts the entries of the distinct trees below some roots."""
    waiting, seen, count = list(roots), set(roots), 0
    while waiting:
        tree = trees.get(waiting.pop(), {})
        count += len(tree)
        below = {entry.id for entry in tree.values() if entry.is_tree} - seen
        seen |= below
        waiting += below
    return count
