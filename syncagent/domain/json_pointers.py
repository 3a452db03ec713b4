"""JSON pointers (RFC 6901) on Kubernetes objects.
In a list, a step that is not an index selects the item with this `name` or `type`:
`/status/conditions/Ready/status` finds the condition of that type.
"""

from collections.abc import Sequence

from core.json_object import JsonValue

MISSING = object()
_NAMES = ("name", "type")


def steps_of(pointer: str) -> tuple[str, ...]:
    """Splits a pointer into unescaped steps; no steps for the whole document."""
    parts = pointer.split("/")[1:] if pointer else []
    return tuple(part.replace("~1", "/").replace("~0", "~") for part in parts)


def pointer_of(steps: Sequence[str]) -> str:
    """Joins steps to a pointer."""
    return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def find(value: object, steps: Sequence[str]) -> object:
    """Returns the value at a pointer; `MISSING` if there is none."""
    for step in steps:
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list):
            index = _index_of(value, step)
            value = MISSING if index is None else value[index]
        else:
            return MISSING
    return value


def without(value: JsonValue, steps: Sequence[str]) -> JsonValue:
    """Returns a copy of the value without the part at a pointer; the same value if there is
    none.
    """
    if not steps or find(value, steps) is MISSING:
        return value
    first, rest = steps[0], steps[1:]
    if isinstance(value, dict):
        if not rest:
            return {key: child for key, child in value.items() if key != first}
        return value | {first: without(value[first], rest)}
    index = _index_of(value, first)
    assert index is not None
    kept = [] if not rest else [without(value[index], rest)]
    return [*value[:index], *kept, *value[index + 1 :]]


def _index_of(items: list[object], step: str) -> int | None:
    if step.isdecimal():
        return int(step) if int(step) < len(items) else None
    for index, item in enumerate(items):
        if isinstance(item, dict) and any(item.get(name) == step for name in _NAMES):
            return index
    return None
