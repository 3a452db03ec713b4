"""Applies manifests of flows and contexts."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from core.errors import Invalid, NotFound
from towline.cli import flow_documents as documents
from towline.cli.generator_documents import GROUPS
from towline.cli.generators import find
from towline.cli.manifests import Manifest
from towline.cli.session import GraphQLApi, Json, find_cluster, find_project, find_service

_CONTEXT = {
    "values": "configuration",
    "types": "types",
    "secretsByReference": "secretsByReference",
}
_LAYERS = ("project", "group", "cluster")


class FlowPlanner:
    """Applies exports, imports and contexts; with `dry_run`, only prints the changes."""

    def __init__(self, api: GraphQLApi, *, dry_run: bool) -> None:
        self._api = api
        self._dry_run = dry_run

    def flow(self, manifest: Manifest) -> Iterator[str]:
        """Applies the exports and imports of a service."""
        fields = manifest.fields
        if self._dry_run and self._service(fields["service"]) is None:
            yield f"+ {manifest.label} would be saved"
            return
        id = find_service(self._api, fields["service"])["id"]
        wanted = {key: fields[key] for key in ("exports", "imports") if key in fields}
        given = self._attributes(wanted)
        before = _as_given(self._api.ask(documents.FLOW, serviceId=id)["serviceFlow"])
        changes = sorted(key for key in given if _sorted(before[key]) != _sorted(given[key]))
        if not changes:
            yield f"= {manifest.label} unchanged"
            return
        if not self._dry_run:
            self._api.ask(documents.SAVE_FLOW, serviceId=id, attributes=given)
        yield f"~ {manifest.label} {self._done('changed')}: {', '.join(changes)}"

    def context(self, manifest: Manifest, secrets: Mapping[str, str] | None) -> Iterator[str]:
        """Applies a context with its overrides; always sends its secrets: they are write-only."""
        fields = manifest.fields
        found = self._found(documents.CONTEXT, "serviceContext", name=fields["name"])
        wanted = {key: fields[name] for name, key in _CONTEXT.items() if name in fields}
        changes = [key for key, value in wanted.items() if (found or {}).get(key) != value]
        is_new, before = found is None, found or {}
        moved = self._moved(before.get("id"), fields) if not (is_new and self._dry_run) else set()
        if (is_new or changes or moved or secrets is not None) and not self._dry_run:
            found = self._save(fields, wanted, secrets, is_new=is_new)
        told = self._dry_run and secrets is not None
        if is_new:
            yield f"+ {manifest.label} {self._done('created')}"
        elif changes or (found or {}).get("secretsVersion") != before.get("secretsVersion"):
            yield f"~ {manifest.label} {self._done('changed')}"
        else:
            yield f"= {manifest.label} unchanged" + (", except for new secret values" * told)
        for layer, place in sorted(moved):
            yield f"  {layer.lower()} {place}: {self._done('changed')}"

    def _save(
        self,
        fields: Mapping[str, Any],
        wanted: Json,
        secrets: Mapping[str, str] | None,
        *,
        is_new: bool,
    ) -> Json:
        attributes: Json = {
            key: value if key == "secretsByReference" else json.dumps(value)
            for key, value in wanted.items()
        }
        if secrets is not None:
            attributes["secrets"] = [{"name": k, "value": v} for k, v in secrets.items()]
        if "overrides" in fields:
            attributes["overrides"] = [
                {"layer": layer, "placeId": place, "configuration": json.dumps(values)}
                for (layer, place), values in self._wanted(fields).items()
            ]
        if is_new and "project" in fields:
            attributes["projectId"] = find_project(self._api, fields["project"])["id"]
        given: Json = {"name": fields["name"], "attributes": attributes}
        return self._api.ask(documents.SAVE_CONTEXT, **given)["saveServiceContext"]

    def _moved(self, id: str | None, fields: Mapping[str, Any]) -> set[tuple[str, str]]:
        """Layers and places with an override that differs from the manifest."""
        if "overrides" not in fields:
            return set()
        rows = self._api.ask(documents.OVERRIDES, id=id)["contextOverrides"] if id else []
        held = {(row["layer"], row["placeId"]): row["configuration"] for row in rows}
        wanted = self._wanted(fields)
        places = held.keys() | wanted.keys()
        return {place for place in places if held.get(place, {}) != wanted.get(place, {})}

    def _wanted(self, fields: Mapping[str, Any]) -> dict[tuple[str, str], Json]:
        return {
            self._place(override): override.get("values") or {} for override in fields["overrides"]
        }

    def _place(self, override: Json) -> tuple[str, str]:
        layer = override.get("layer", "")
        if layer not in _LAYERS or "place" not in override:
            raise Invalid(f"an override needs a place and a layer (one of {', '.join(_LAYERS)})")
        looks = {
            "project": lambda: find_project(self._api, override["place"]),
            "group": lambda: find(self._api, GROUPS, override["place"]),
            "cluster": lambda: find_cluster(self._api, override["place"]),
        }
        return layer.upper(), looks[layer]()["id"]

    def _attributes(self, wanted: Mapping[str, Any]) -> Json:
        given: Json = {}
        if "exports" in wanted:
            given["exports"] = [
                {
                    **export,
                    "type": export.get("type", "TEXT"),
                    "value": json.dumps(export.get("value")),
                }
                for export in wanted["exports"]
            ]
        if "imports" in wanted:
            given["imports"] = [self._import(entry) for entry in wanted["imports"]]
        return given

    def _import(self, entry: Json) -> Json:
        if not {"alias", "service", "export"} <= entry.keys():
            raise Invalid("an import needs alias, service and export", field="imports")
        found = find_service(self._api, entry["service"])["id"]
        given: Json = {"alias": entry["alias"], "sourceId": found, "export": entry["export"]}
        return given | ({"default": json.dumps(entry["default"])} if "default" in entry else {})

    def _service(self, name: str) -> Json | None:
        try:
            return find_service(self._api, name)
        except NotFound:
            return None

    def _found(self, document: str, root: str, **variables: Any) -> Json | None:
        try:
            return self._api.ask(document, **variables)[root]
        except NotFound:
            return None

    def _done(self, word: str) -> str:
        return f"would be {word}" if self._dry_run else word


def _as_given(flow: Json) -> Json:
    """Converts a flow of the API to the form of its attributes."""
    exports = [
        {key: export[key] for key in ("name", "type", "value")} for export in flow["exports"]
    ]
    for export, told in zip(exports, flow["exports"], strict=True):
        export["shared"] = told["shared"]
    imports = [
        {"alias": entry["alias"], "sourceId": entry["sourceId"], "export": entry["export"]}
        | ({"default": entry["default"]} if entry["default"] is not None else {})
        for entry in flow["imports"]
    ]
    return {"exports": exports, "imports": imports}


def _sorted(items: list[Json]) -> list[str]:
    """Normalizes lists for comparison: parses JSON texts and drops unset fields."""
    found = []
    for item in items:
        meant = {key: value for key, value in item.items() if value not in (None, False)}
        for key in ("value", "default"):
            if key in meant:
                meant[key] = json.loads(meant[key])
        found.append(json.dumps(meant, sort_keys=True))
    return sorted(found)
