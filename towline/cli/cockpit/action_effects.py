"""Description of the effect of an action, from the answer of the API server to its dry run."""

import json
from collections.abc import Iterator

from core.json_object import JsonObject, JsonValue
from towline.cli.cockpit.workload_actions import ActionRequest
from towline.cli.shell.output import escape_controls

_NOISE = (
    *("metadata.managedFields", "metadata.resourceVersion", "metadata.generation"),
    *("metadata.creationTimestamp", "status.observedGeneration"),
)
"""Fields that every write changes."""
_ABSENT = object()


def effect_lines(
    request: ActionRequest, live: JsonObject, before: JsonObject, after: JsonObject
) -> list[str]:
    """Describes the changes of a request; `before` and `after`: what a PATCH changes."""
    if request.method == "PATCH":
        return list(map(escape_controls, _changes(before, after))) or ["No field changes."]
    sign, changed = ("-", live) if request.method == "DELETE" else ("+", after)
    return [escape_controls(f"{sign} {changed['kind']} {changed['metadata']['name']}")]


def _changes(before: JsonValue, after: JsonValue, path: str = "") -> Iterator[str]:
    """Fields that differ, by their paths."""
    if path in _NOISE or before == after:
        return
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            inner = f"{path}.{key}" if path else key
            yield from _changes(before.get(key, _ABSENT), after.get(key, _ABSENT), inner)
    else:
        yield f"{path}: {_text(before)} → {_text(after)}"


def _text(value: JsonValue) -> str:
    return "(none)" if value is _ABSENT else json.dumps(value, ensure_ascii=False)
