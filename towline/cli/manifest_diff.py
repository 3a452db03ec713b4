"""Compares a manifest with the state in the control plane."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

# At these paths a manifest is partial; everywhere else it replaces the whole value.
_PARTIAL = (
    *("", "git", "kustomize", "helm", "verification", "verification.metric"),
    *("template helm", "template verification", "template verification.metric"),
)


def changes_of(before: Any, wanted: Mapping[str, Any], where: str = "") -> dict[str, str]:
    """Returns `old → new` by path, for each field that differs."""
    old = before or {}
    keys = wanted if where in _PARTIAL else {**old, **wanted}
    found: dict[str, str] = {}
    for key in keys:
        path = f"{where}.{key}" if where else key
        was, will = old.get(key), wanted.get(key)
        if isinstance(will, dict) and (was is None or isinstance(was, dict)):
            found |= changes_of(was, will, path)
        elif was != will:
            found[path] = f"{_brief(was)} → {_brief(will)}"
    return found


def service_as_written(service: Json) -> Json:
    """Converts a service of the API to the form of a manifest."""
    return {
        **service,
        "cluster": (service["cluster"] or {}).get("handle"),
        "repository": (service["repository"] or {}).get("url"),
        "configuration": {entry["name"]: entry["value"] for entry in service["configuration"]},
    }


def _brief(value: Any) -> str:
    return "(none)" if value in (None, "", [], {}) else str(value)
