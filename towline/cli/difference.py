"""What differs between what the control plane holds and what a manifest says."""

from collections.abc import Mapping
from typing import Any

Json = dict[str, Any]

# Here a manifest names only what it cares about; everywhere else it means the whole.
_PARTIAL = ("", "git", "kustomize", "helm")


def changes_of(before: Any, wanted: Mapping[str, Any], where: str = "") -> dict[str, str]:
    """`old → new` by path, for all that is wanted and is not so."""
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
    """A service of the API in the form of a manifest."""
    return {
        **service,
        "cluster": (service["cluster"] or {}).get("handle"),
        "repository": (service["repository"] or {}).get("url"),
        "configuration": {one["name"]: one["value"] for one in service["configuration"]},
    }


def pipeline_as_written(pipeline: Json, names: Mapping[str, str]) -> Json:
    """A pipeline of the API: services by stage, gates by edge and name.

    `names` tells how the manifest calls services, by their ids.
    """
    stages = {
        stage["name"]: [
            names.get(one["service"]["id"], one["service"]["id"]) for one in stage["services"]
        ]
        for stage in pipeline["stages"]
    }
    edges = {
        f"{edge['from']['name']} to {edge['to']['name']}": _gates(edge["gates"])
        for edge in pipeline["edges"]
    }
    return {"stages": stages, "edges": edges}


def pipeline_as_meant(fields: Mapping[str, Any]) -> Json:
    """A pipeline's manifest in the same form."""
    stages = {stage["name"]: list(stage.get("services", ())) for stage in fields["stages"]}
    edges = {
        f"{edge['from']} to {edge['to']}": _gates(edge.get("gates", ()))
        for edge in fields.get("edges", ())
    }
    return {"stages": stages, "edges": edges}


def _gates(gates: Any) -> Json:
    return {gate["name"]: _gate(gate) for gate in gates}


def _gate(gate: Mapping[str, Any]) -> Json:
    """A gate with the API's defaults."""
    if gate["type"] != "APPROVAL":
        return {"type": gate["type"], "soakSeconds": gate.get("soakSeconds")}
    quorum = gate.get("quorum")
    return {
        "type": gate["type"],
        "quorum": 1 if quorum is None else quorum,
        "notAuthor": gate.get("notAuthor") is not False,
    }


def _brief(value: Any) -> str:
    return "(none)" if value in (None, "", [], {}) else str(value)
