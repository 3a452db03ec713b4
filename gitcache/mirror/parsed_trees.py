"""A cache of parsed trees; of a changed large tree, only the changed parts are parsed."""

from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from core.errors import Invalid
from gitcache.domain.trees import Entry, parse_tree

Tree = Mapping[str, Entry]
Place = tuple[str, str]
"""A repository and a path in it, where successive trees are likely to be similar."""

_MIN_LARGE_ENTRIES = 1_000
_CHUNK = 64
_MAX_LARGE_TREE_ENTRIES = 120_000
"""Maximum entries of all large trees that are kept in raw and parsed form."""


class ParsedTrees:
    """The most recently used trees, bounded by their total number of entries."""

    def __init__(self, entries: int) -> None:
        self._free_entries = entries
        self._trees: OrderedDict[str, Tree] = OrderedDict()
        self._large_trees: OrderedDict[Place, _LargeTree] = OrderedDict()
        self._large_entries = 0

    def get(self, tree: str) -> Tree | None:
        """Returns a cached tree by id, or None."""
        cached = self._trees.get(tree)
        if cached is not None:
            self._trees.move_to_end(tree)
        return cached

    def parse(self, tree: str, data: bytes, place: Place | None = None) -> Tree:
        """Parses and caches a raw tree. Raises Invalid if it is malformed.

        `place` finds the previous version of a large tree, so that only changed entries are parsed.
        """
        entries = self._parse_incrementally(data, len(tree) // 2, place)
        self._cache(tree, entries)
        return entries

    def _parse_incrementally(self, data: bytes, id_bytes: int, place: Place | None) -> Tree:
        before = self._large_trees.get(place) if place is not None else None
        large_tree = before.parse_next(data) if before is not None else None
        if large_tree is None:
            entries = parse_tree(data, id_bytes)
            if len(entries) < _MIN_LARGE_ENTRIES or place is None:
                return entries
            large_tree = _LargeTree(data, entries, id_bytes, _chunk_ends(entries, id_bytes))
        if place is not None and large_tree.ends[-1] == len(data):
            self._remember_large(place, large_tree)
        return large_tree.entries

    def _remember_large(self, place: Place, large: "_LargeTree") -> None:
        before = self._large_trees.pop(place, None)
        self._large_entries += len(large.entries) - (len(before.entries) if before else 0)
        self._large_trees[place] = large
        while self._large_entries > _MAX_LARGE_TREE_ENTRIES:
            _, dropped = self._large_trees.popitem(last=False)
            self._large_entries -= len(dropped.entries)

    def _cache(self, tree: str, entries: Tree) -> None:
        if tree in self._trees:
            return
        self._trees[tree] = entries
        self._free_entries -= len(entries) + 1
        while self._free_entries < 0 and len(self._trees) > 1:
            _, dropped = self._trees.popitem(last=False)
            self._free_entries += len(dropped) + 1


@dataclass(frozen=True, slots=True)
class _LargeTree:
    """A large tree, raw and parsed; `ends` has the end offset of each chunk of entries."""

    data: bytes
    entries: Tree
    id_bytes: int
    ends: list[int]

    def parse_next(self, data: bytes) -> "_LargeTree | None":
        """Parses a tree with the same names and some changed ids; None if other parts differ."""
        if len(data) != len(self.data):
            return None
        entries = dict(self.entries)
        for start, end in zip([0, *self.ends], self.ends, strict=False):
            old, new = self.data[start:end], data[start:end]
            if old == new:
                continue
            try:
                changed = parse_tree(new, self.id_bytes)
            except Invalid:
                return None
            if list(changed) != list(parse_tree(old, self.id_bytes)):
                return None
            entries |= changed
        return _LargeTree(data, entries, self.id_bytes, self.ends)


def _chunk_ends(entries: Tree, id_bytes: int) -> list[int]:
    ends, position = [], 0
    for count, (name, entry) in enumerate(entries.items(), 1):
        name_bytes = len(name.encode("utf-8", "surrogateescape"))
        position += len(f"{entry.mode:o} ") + name_bytes + 1 + id_bytes
        if not count % _CHUNK or count == len(entries):
            ends.append(position)
    return ends
