"""Field ownership of an object, read from its `metadata.managedFields`.

The entries are Kubernetes' FieldsV1 (structured-merge-diff): `f:` precedes a field's name, `k:` the
keys of a list item, `v:` an item that is a plain value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

import orjson

from controlplane.services.model.live_state import parse_time
from core.json_object import JsonMapping, JsonValue

FIELD_MANAGER = "towline"
"""Field manager under which agents write."""
MAX_FIELDS = 1_000
MAX_VALUE_LENGTH = 500
_MAX_DEPTH = 40
_MISSING: object = object()


@dataclass(frozen=True, slots=True)
class ListItemStep:
    """A step into a list: the item with these fields, or the item that equals this value."""

    of: object

    def index(self, items: Sequence[object]) -> int | None:
        """Returns the position of the item."""
        for position, item in enumerate(items):
            if item == self.of or (
                isinstance(item, Mapping)
                and isinstance(self.of, Mapping)
                and all(item.get(name) == value for name, value in self.of.items())
            ):
                return position
        return None


Step = str | ListItemStep


@dataclass(frozen=True, slots=True)
class ManagedField:
    """A field of the live object and its last writer."""

    pointer: str
    """JSON pointer of the field (RFC 6901)."""
    value: str
    """Value as JSON, cut after 500 characters."""
    manager: str
    """Field manager (server-side apply)."""
    operation: str
    """`Apply` or `Update`."""
    at: datetime | None
    """Time of the last write by the manager."""
    subresource: str = ""
    """Subresource that was written, such as `status`."""
    steps: tuple[Step, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Returns whether an agent wrote the field on behalf of its service."""
        return self.manager == FIELD_MANAGER and not self.subresource


def managed_fields(
    entries: Sequence[object], live: JsonMapping, prefix: str = ""
) -> list[ManagedField]:
    """Returns an object's managed fields below `prefix`, sorted by pointer.

    `entries` are its `managedFields`; entries that cannot be parsed are skipped.
    """
    fields: dict[tuple[str, str], ManagedField] = {}
    for entry in entries:
        if isinstance(entry, Mapping):
            for field in _fields_of_entry(entry, live):
                if f"{field.pointer}/".startswith(f"{prefix.rstrip('/')}/"):
                    fields[field.pointer, field.manager] = field
                if len(fields) >= MAX_FIELDS:
                    break
    return sorted(fields.values(), key=lambda field: (field.pointer, field.manager))


def value_at(value: object, steps: Sequence[Step]) -> bytes | None:
    """Returns the JSON at the end of a path, or None if the path does not exist."""
    for step in steps:
        value = _descend(value, step)[1]
        if value is _MISSING:
            return None
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _fields_of_entry(entry: Mapping[str, object], live: JsonMapping) -> Iterator[ManagedField]:
    manager = ManagedField(
        "",
        "",
        str(entry.get("manager", ""))[:253],
        str(entry.get("operation", ""))[:16],
        parse_time(entry.get("time")),
        str(entry.get("subresource") or "")[:63],
    )
    fields = entry.get("fieldsV1")
    for steps in _leaf_paths(fields if isinstance(fields, Mapping) else {}, ()):
        pointer, value = _follow_path(live, steps)
        if value is not _MISSING:
            serialized = orjson.dumps(value).decode()[:MAX_VALUE_LENGTH]
            yield replace(manager, pointer=pointer, value=serialized, steps=steps)


def _leaf_paths(fields: JsonMapping, above: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Returns the paths of fields that contain no other managed fields."""
    children = {name: below for name, below in fields.items() if name != "."}
    if not children and above:
        yield above
    for name, below in children.items():
        step = _parse_step(name)
        if step is not None and isinstance(below, Mapping) and len(above) < _MAX_DEPTH:
            yield from _leaf_paths(below, (*above, step))


def _parse_step(name: str) -> Step | None:
    kind, _, text = name.partition(":")
    if kind == "f":
        return text
    try:
        return ListItemStep(orjson.loads(text)) if kind in ("k", "v") else None
    except orjson.JSONDecodeError:
        return None


def _follow_path(value: object, steps: Sequence[Step]) -> tuple[str, object]:
    """Follows a path through an object; returns (pointer, value). The value may be missing."""
    pointer = ""
    for step in steps:
        key, value = _descend(value, step)
        if value is _MISSING:
            break
        pointer += "/" + str(key).replace("~", "~0").replace("/", "~1")
    return pointer, value


def _descend(value: JsonValue, step: Step) -> tuple[str | int, object]:
    if isinstance(step, str):
        return step, value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
    index = step.index(value) if isinstance(value, list) else None
    return (0, _MISSING) if index is None else (index, value[index])
