"""Differences between two JSON values. Cheap to import, for the command line."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from core.json_object import JsonValue

MISSING: Final = object()
"""Value of a field that one of the two values does not have."""


class ListItem(NamedTuple):
    """Place of a list's item: its index, and its name if the items are paired by name."""

    index: int
    name: str | None = None


Path = tuple[str | ListItem, ...]


class FieldDifference(NamedTuple):
    """A field that differs; a side without it has the value `MISSING`."""

    path: Path
    old: JsonValue
    new: JsonValue


def differing_fields(old: JsonValue, new: JsonValue, path: Path = ()) -> Iterator[FieldDifference]:
    """Yields the deepest fields at which two values differ, sorted by key.

    Lists whose items all have a `name` of their own are paired by it, others by index. A list in
    which only the order of the names differs is yielded as a whole. 1 and true are different.
    """
    if isinstance(old, dict) and isinstance(new, dict):
        for key in sorted({*old, *new}):
            yield from differing_fields(old.get(key, MISSING), new.get(key, MISSING), (*path, key))
    elif isinstance(old, list) and isinstance(new, list):
        yield from _differing_items(old, new, path)
    elif type(old) is not type(new) or old != new:
        yield FieldDifference(path, old, new)


def json_pointer(path: Path) -> str:
    """Returns a path as a JSON pointer (RFC 6901), such as `/spec/containers/0/image`."""
    parts = (str(part.index) if isinstance(part, ListItem) else part for part in path)
    return "".join(f"/{part.replace('~', '~0').replace('/', '~1')}" for part in parts)


def dotted_path(path: Path) -> str:
    """Returns a path for people, such as `spec.containers[web].image`."""
    text = ""
    for part in path:
        if isinstance(part, ListItem):
            text += f"[{part.index if part.name is None else part.name}]"
        else:
            text += f".{part}" if text else part
    return text


def _differing_items(
    old: Sequence[JsonValue], new: Sequence[JsonValue], path: Path
) -> Iterator[FieldDifference]:
    before, after = _index_by_name(old), _index_by_name(new)
    if before is None or after is None:
        for index in range(max(len(old), len(new))):
            old_item = old[index] if index < len(old) else MISSING
            new_item = new[index] if index < len(new) else MISSING
            yield from differing_fields(old_item, new_item, (*path, ListItem(index)))
        return
    has_difference = False
    for name in dict.fromkeys((*after, *before)):
        old_item = old[before[name]] if name in before else MISSING
        new_item = new[after[name]] if name in after else MISSING
        item_path_part = ListItem(after.get(name, before.get(name, 0)), name)
        for difference in differing_fields(old_item, new_item, (*path, item_path_part)):
            has_difference = True
            yield difference
    if not has_difference and [*before] != [*after]:
        yield FieldDifference(path, old, new)


def _index_by_name(items: Sequence[JsonValue]) -> dict[str, int] | None:
    """Returns the index of each name. None: an item has none, or shares it."""
    names = {
        item["name"]: index
        for index, item in enumerate(items)
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    return names if len(names) == len(items) else None
