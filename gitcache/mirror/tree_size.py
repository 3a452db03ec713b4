"""Counts the files and folders of a commit, by distinct folders because of git bombs."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

from gitcache.domain.commits import parse_commit
from gitcache.domain.trees import Entry, parse_tree
from gitcache.mirror.catfile import CatFile

Tree = Mapping[str, Entry]

_MAX_BYTES = 64 << 20
_MAX_BATCH = 1_000


@dataclass(frozen=True, slots=True)
class TreeSize:
    """Number of files and folders of a commit, and of those below paths in use."""

    entries: int
    used: int


async def measure_tree(
    clone: Path, sha: str, paths: Collection[str], *, max_entries: int
) -> TreeSize:
    """Counts up to about `max_entries` entries of a commit. Raises Invalid, Unavailable.

    A folder that appears many times counts once, because it is fetched once.
    """
    objects = CatFile(clone)
    try:
        (data,) = await objects.contents([sha])
        root = parse_commit(sha, data).tree
        trees = await _read_trees(objects, root, max_entries)
    finally:
        await objects.close()
    used = {tree_id for path in paths if (tree_id := _find_tree(trees, root, path)) is not None}
    return TreeSize(_count_entries(trees, {root}), _count_entries(trees, used))


async def _read_trees(objects: CatFile, root: str, max_entries: int) -> dict[str, Tree]:
    """Reads the trees below a root, breadth first, up to about `max_entries`."""
    trees: dict[str, Tree] = {}
    pending, queued, entries = [root], {root}, 0
    while pending and entries < max_entries:
        batch, pending = pending[:_MAX_BATCH], pending[_MAX_BATCH:]
        infos = await objects.infos(batch)
        if sum(info.size for info in infos if info) > _MAX_BYTES:
            break
        present = [tree_id for tree_id, info in zip(batch, infos, strict=True) if info is not None]
        for tree_id, data in zip(present, await objects.contents(present), strict=True):
            trees[tree_id] = parse_tree(data, len(tree_id) // 2)
            entries += len(trees[tree_id])
            children = [e.id for e in trees[tree_id].values() if e.is_tree and e.id not in queued]
            queued.update(children)
            pending += dict.fromkeys(children)
    return trees


def _find_tree(trees: Mapping[str, Tree], root: str, path: str) -> str | None:
    """Finds the tree at a path among the read trees."""
    current = root
    for name in path.split("/") if path else ():
        entry = trees[current].get(name) if current in trees else None
        if entry is None or not entry.is_tree:
            return None
        current = entry.id
    return current


def _count_entries(trees: Mapping[str, Tree], roots: Collection[str]) -> int:
    """Counts the entries of the distinct trees below some roots."""
    pending, queued, count = list(roots), set(roots), 0
    while pending:
        tree = trees.get(pending.pop(), {})
        count += len(tree)
        children = {entry.id for entry in tree.values() if entry.is_tree} - queued
        queued |= children
        pending += children
    return count
