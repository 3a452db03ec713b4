"""Description of the effect of an action, from the answer of the API server to its dry run."""

import json
from collections.abc import Iterator

from core.json_differences import MISSING, differing_fields, dotted_path
from core.json_object import JsonObject, JsonValue
from towline.cli.cockpit.workload_actions import ActionRequest
from towline.cli.shell.output import escape_controls

_NOISE = {
    ("metadata", "managedFields"),
    ("metadata", "resourceVersion"),
    ("metadata", "generation"),
    ("metadata", "creationTimestamp"),
    ("status", "observedGeneration"),
}
"""Fields that every write changes."""


def effect_lines(
    request: ActionRequest, live: JsonObject, before: JsonObject, after: JsonObject
) -> list[str]:
    """Describes the changes of a request; `before` and `after`: what a PATCH changes."""
    if request.method == "PATCH":
        return list(map(escape_controls, _changes(before, after))) or ["No field changes."]
    sign, changed = ("-", live) if request.method == "DELETE" else ("+", after)
    return [escape_controls(f"{sign} {changed['kind']} {changed['metadata']['name']}")]


def _changes(before: JsonValue, after: JsonValue) -> Iterator[str]:
    """Fields that differ, by their paths."""
    for path, old, new in differing_fields(before, after):
        if path[:2] not in _NOISE:
            yield f"{dotted_path(path)}: {_text(old)} → {_text(new)}"


def _text(value: JsonValue) -> str:
    return "(none)" if value is MISSING else json.dumps(value, ensure_ascii=False)
