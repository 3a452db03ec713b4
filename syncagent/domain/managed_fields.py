"""Field ownership: sets of fields in the API server's format.
Spec: structured-merge-diff, FieldsV1. A set is a tree whose keys are `f:<field>`, `k:<JSON>` for
the list item with these keys, `v:<JSON>` for an item that is its own key, and `.`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import orjson

from core.json_object import JsonObject, JsonValue
from syncagent.domain.json_pointers import MISSING, find
from syncagent.domain.objects import KubeObject, metadata_of

FieldSet = JsonObject
Entry = JsonObject


def entries_of(live: KubeObject) -> list[Entry]:
    """Lists the managed-fields entries of an object, without those of subresources."""
    entries = metadata_of(live).get("managedFields") or ()
    return [entry for entry in entries if isinstance(entry, dict) and not entry.get("subresource")]


def fields_of(entry: Entry) -> FieldSet:
    return entry.get("fieldsV1") or {}


def union(sets: Iterable[FieldSet]) -> FieldSet:
    """Merges several sets."""
    merged: FieldSet = {}
    for field_set in sets:
        for key, below in field_set.items():
            merged[key] = union((merged[key], below)) if key in merged else below
    return merged


def path_of(value: object, steps: Sequence[str]) -> list[str]:
    """Converts a pointer into an object to the keys of a set; list items are identified by name."""
    keys: list[str] = []
    for step in steps:
        if isinstance(value, list):
            item = find(value, (step,))
            if not isinstance(item, dict) or "name" not in item:
                return keys
            keys.append("k:" + orjson.dumps({"name": item["name"]}).decode())
            value = item
        else:
            keys.append(f"f:{step}")
            value = value.get(step, MISSING) if isinstance(value, dict) else MISSING
    return keys


def contains_field(fields: FieldSet, keys: Sequence[str]) -> bool:
    """Reports whether a set contains a field or part of it."""
    for key in keys:
        if key not in fields:
            return False
        fields = fields[key]
    return True


def without_field(fields: FieldSet, keys: Sequence[str]) -> FieldSet:
    """Removes a field and its subfields from a set."""
    if not keys or not contains_field(fields, keys):
        return fields
    if len(keys) == 1:
        return {key: below for key, below in fields.items() if key != keys[0]}
    return fields | {keys[0]: without_field(fields[keys[0]], keys[1:])}


def without_fields(value: object, fields: FieldSet) -> JsonValue:
    """Removes the fields of a set from a part of a manifest, and then empty branches."""
    if isinstance(value, dict):
        kept = {}
        for name, child in value.items():
            below = fields.get(f"f:{name}")
            rest = child if below is None else without_fields(child, below) if below else MISSING
            if rest is not MISSING:
                kept[name] = rest
        return kept if kept or not value else MISSING
    if isinstance(value, list):
        return [_item_without(item, fields) for item in value]
    return MISSING


def leaves(fields: FieldSet, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Lists the paths of the leaf fields of a set."""
    below = {key: inner for key, inner in fields.items() if key != "."}
    if not below and path:
        yield path
    for key, inner in below.items():
        yield from leaves(inner, (*path, key))


def _item_without(item: object, fields: FieldSet) -> object:
    """Removes fields from a list item, but keeps its identifying keys."""
    for key, below in fields.items():
        if key.startswith("k:") and isinstance(item, dict) and _is_item(item, key):
            rest = without_fields(item, below)
            return (rest if isinstance(rest, dict) else {}) | orjson.loads(key[2:])
    return item


def _is_item(item: Mapping[str, object], key: str) -> bool:
    try:
        wanted = orjson.loads(key[2:])
    except orjson.JSONDecodeError:
        return False
    return all(item.get(name) == value for name, value in wanted.items())
