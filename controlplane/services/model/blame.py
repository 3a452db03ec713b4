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
        for place, item in enumerate(items):
            if item == self.of or (
                isinstance(item, Mapping)
                and isinstance(self.of, Mapping)
                and all(item.get(name) == value for name, value in self.of.items())
            ):
                return place
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
    noted: Sequence[object], live: JsonMapping, under: str = ""
) -> list[ManagedField]:
    """Returns an object's managed fields below `under`, sorted by pointer.

    `noted` is its `managedFields`; entries that cannot be parsed are skipped.
    """
    found: dict[tuple[str, str], ManagedField] = {}
    for entry in noted:
        if isinstance(entry, Mapping):
            for field in _of_manager(entry, live):
                if f"{field.pointer}/".startswith(f"{under.rstrip('/')}/"):
                    found[field.pointer, field.manager] = field
                if len(found) >= MAX_FIELDS:
                    break
    return sorted(found.values(), key=lambda blame: (blame.pointer, blame.manager))


def value_at(value: object, steps: Sequence[Step]) -> bytes | None:
    """Returns the JSON at the end of a path, or None if the path does not exist."""
    for step in steps:
        value = _next(value, step)[1]
        if value is _MISSING:
            return None
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _of_manager(entry: Mapping[str, object], live: JsonMapping) -> Iterator[ManagedField]:
    who = ManagedField(
        "",
        "",
        str(entry.get("manager", ""))[:253],
        str(entry.get("operation", ""))[:16],
        parse_time(entry.get("time")),
        str(entry.get("subresource") or "")[:63],
    )
    fields = entry.get("fieldsV1")
    for steps in _leaves(fields if isinstance(fields, Mapping) else {}, ()):
        pointer, value = _followed(live, steps)
        if value is not _MISSING:
            text = orjson.dumps(value).decode()[:MAX_VALUE_LENGTH]
            yield replace(who, pointer=pointer, value=text, steps=steps)


def _leaves(fields: JsonMapping, above: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """Returns the paths of fields that contain no other managed fields."""
    inner = {name: below for name, below in fields.items() if name != "."}
    if not inner and above:
        yield above
    for name, below in inner.items():
        step = _step(name)
        if step is not None and isinstance(below, Mapping) and len(above) < _MAX_DEPTH:
            yield from _leaves(below, (*above, step))


def _step(name: str) -> Step | None:
    kind, _, text = name.partition(":")
    if kind == "f":
        return text
    try:
        return ListItemStep(orjson.loads(text)) if kind in ("k", "v") else None
    except orjson.JSONDecodeError:
        return None


def _followed(value: object, steps: Sequence[Step]) -> tuple[str, object]:
    """Follows a path through an object; returns (pointer, value). The value may be missing."""
    pointer = ""
    for step in steps:
        place, value = _next(value, step)
        if value is _MISSING:
            break
        pointer += "/" + str(place).replace("~", "~0").replace("/", "~1")
    return pointer, value


def _next(value: JsonValue, step: Step) -> tuple[str | int, object]:
    if isinstance(step, str):
        return step, value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
    index = step.index(value) if isinstance(value, list) else None
    return (0, _MISSING) if index is None else (index, value[index])
