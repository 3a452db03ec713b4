"""Compares a manifest with the state in the control plane."""

from towline.cli.services.generated import ServiceDetails
from towline.cli.shell.output import Row

# At these paths a manifest is partial; everywhere else it replaces the whole value.
_PARTIAL = (
    *("", "git", "kustomize", "helm", "rendering", "verification", "verification.metric"),
    *(
        "template helm",
        "template rendering",
        "template verification",
        "template verification.metric",
    ),
)


def changes_of(before: Row | None, wanted: Row, where: str = "") -> dict[str, str]:
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


def service_as_written(service: ServiceDetails) -> Row:
    """Converts a service of the API to the form of a manifest."""
    return {
        **service,
        "cluster": service["cluster"]["handle"] if service["cluster"] else None,
        "repository": service["repository"]["url"] if service["repository"] else None,
        "configuration": {entry["name"]: entry["value"] for entry in service["configuration"]},
    }


def _brief(value: object) -> str:
    return "(none)" if value in (None, "", [], {}) else str(value)
