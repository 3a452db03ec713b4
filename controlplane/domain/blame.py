"""Who decided on which field of an object: as its cluster notes it in `metadata.managedFields`.

The notes are FieldsV1 of Kubernetes (structured-merge-diff): `f:` before a field's name, `k:`
before the keys of an item of a list, `v:` before an item that is a plain value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

import orjson

from controlplane.domain.livestate import time_of

FIELD_MANAGER = "towline"
"""As whom agents write."""
MOST_FIELDS = 1_000
LONGEST_VALUE = 500
_DEEPEST = 40
_MISSING: Any = object()


@dataclass(frozen=True, slots=True)
class Item:
    """A step into a list: the item with these fields, or the item that is this value."""

    of: Any

    def index(self, items: Sequence[Any]) -> int | None:
        """Where the item is."""
        for place, one in enumerate(items):
            if one == self.of or (
                isinstance(one, Mapping)
                and isinstance(self.of, Mapping)
                and all(one.get(name) == value for name, value in self.of.items())
            ):
                return place
        return None


Step = str | Item


@dataclass(frozen=True, slots=True)
class Managed:
    """A field and who wrote it last; `pointer` (RFC 6901) leads to it in the object as it is.

    `value` is JSON, cut. `subresource`: through which it was written, like `scale`.
    """

    pointer: str
    value: str
    manager: str
    operation: str
    at: datetime | None
    subresource: str = ""
    steps: tuple[Step, ...] = ()

    @property
    def is_ours(self) -> bool:
        """Whether an agent wrote it, as its service says."""
        return self.manager == FIELD_MANAGER and not self.subresource


def managed(noted: Sequence[Any], live: Mapping[str, Any], under: str = "") -> list[Managed]:
    """Fields of an object, in order of their pointers; those below `under` only.

    `noted` are its managed fields; what cannot be read of them is passed over.
    """
    found: dict[tuple[str, str], Managed] = {}
    for entry in noted:
        if isinstance(entry, Mapping):
            for one in _of_manager(entry, live):
                if f"{one.pointer}/".startswith(f"{under.rstrip('/')}/"):
                    found[one.pointer, one.manager] = one
                if len(found) >= MOST_FIELDS:
                    break
    return sorted(found.values(), key=lambda one: (one.pointer, one.manager))


def reached(value: Any, steps: Sequence[Step]) -> bytes | None:
    """The JSON at the end of some steps; None: there is nothing."""
    for step in steps:
        value = _next(value, step)[1]
        if value is _MISSING:
            return None
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _of_manager(entry: Mapping[str, Any], live: Mapping[str, Any]) -> Iterator[Managed]:
    who = Managed(
        "",
        "",
        str(entry.get("manager", ""))[:253],
        str(entry.get("operation", ""))[:16],
        time_of(entry.get("time")),
        str(entry.get("subresource") or "")[:63],
    )
    fields = entry.get("fieldsV1")
    for steps in _leaves(fields if isinstance(fields, Mapping) else {}, ()):
        pointer, value = _followed(live, steps)
        if value is not _MISSING:
            text = orjson.dumps(value).decode()[:LONGEST_VALUE]
            yield replace(who, pointer=pointer, value=text, steps=steps)


def _leaves(fields: Mapping[str, Any], above: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The paths of fields that hold no other noted ones."""
    inner = {name: below for name, below in fields.items() if name != "."}
    if not inner and above:
        yield above
    for name, below in inner.items():
        step = _step(name)
        if step is not None and isinstance(below, Mapping) and len(above) < _DEEPEST:
            yield from _leaves(below, (*above, step))


def _step(name: str) -> Step | None:
    kind, _, text = name.partition(":")
    if kind == "f":
        return text
    try:
        return Item(orjson.loads(text)) if kind in ("k", "v") else None
    except orjson.JSONDecodeError:
        return None


def _followed(value: Any, steps: Sequence[Step]) -> tuple[str, Any]:
    """(pointer, value) at the end of steps through an object; the value may be missing."""
    pointer = ""
    for step in steps:
        place, value = _next(value, step)
        if value is _MISSING:
            break
        pointer += "/" + str(place).replace("~", "~0").replace("/", "~1")
    return pointer, value


def _next(value: Any, step: Step) -> tuple[str | int, Any]:
    if isinstance(step, str):
        return step, value.get(step, _MISSING) if isinstance(value, Mapping) else _MISSING
    index = step.index(value) if isinstance(value, list) else None
    return (0, _MISSING) if index is None else (index, value[index])
