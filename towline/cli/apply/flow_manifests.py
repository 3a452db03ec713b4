"""Applies manifests of flows and contexts."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, cast

from core.errors import Invalid
from core.json_object import JsonObject
from towline.cli.apply.manifests import Manifest
from towline.cli.clusters.find import find_cluster
from towline.cli.configuration import generated as operations
from towline.cli.configuration.generated import Context, Flow
from towline.cli.generators.find import find_group
from towline.cli.projects.find import find_project
from towline.cli.services.find import find_service
from towline.cli.shell.output import Row
from towline.cli.shell.session import found_or_none
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ServiceContextAttributes, ServiceFlowAttributes

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
        name = fields["service"]
        if self._dry_run and found_or_none(lambda: find_service(self._api, name)) is None:
            yield f"+ {manifest.label} would be saved"
            return
        id = find_service(self._api, name)["id"]
        given = self._attributes(fields)
        before = _as_given(operations.service_flow(self._api, id))
        changes = sorted(key for key in given if _sorted(before[key]) != _sorted(given[key]))
        if not changes:
            yield f"= {manifest.label} unchanged"
            return
        if not self._dry_run:
            attributes = cast("ServiceFlowAttributes", given)
            operations.save_service_flow(self._api, id, attributes)
        yield f"~ {manifest.label} {self._done('changed')}: {', '.join(changes)}"

    def context(self, manifest: Manifest, secrets: Mapping[str, str] | None) -> Iterator[str]:
        """Applies a context with its overrides; always sends its secrets: they are write-only."""
        fields = manifest.fields
        name = fields["name"]
        found = found_or_none(lambda: operations.service_context(self._api, name))
        wanted = {key: fields[name] for name, key in _CONTEXT.items() if name in fields}
        before: Row = found or {}
        changes = [key for key, value in wanted.items() if before.get(key) != value]
        moved = self._moved(found, fields) if found or not self._dry_run else set()
        saved = found
        if (found is None or changes or moved or secrets is not None) and not self._dry_run:
            saved = self._save(fields, wanted, secrets, is_new=found is None)
        has_unknown_secrets = self._dry_run and secrets is not None
        if found is None or saved is None:
            yield f"+ {manifest.label} {self._done('created')}"
        elif changes or saved["secretsVersion"] != found["secretsVersion"]:
            yield f"~ {manifest.label} {self._done('changed')}"
        else:
            yield f"= {manifest.label} unchanged" + (
                ", except for new secret values" * has_unknown_secrets
            )
        for layer, place in sorted(moved):
            yield f"  {layer.lower()} {place}: {self._done('changed')}"

    def _save(
        self,
        fields: JsonObject,
        wanted: JsonObject,
        secrets: Mapping[str, str] | None,
        *,
        is_new: bool,
    ) -> Context:
        attributes: JsonObject = {
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
        return operations.save_service_context(
            self._api, fields["name"], cast("ServiceContextAttributes", attributes)
        )

    def _moved(self, context: Context | None, fields: JsonObject) -> set[tuple[str, str]]:
        """Layers and places with an override that differs from the manifest."""
        if "overrides" not in fields:
            return set()
        rows = operations.context_overrides(self._api, context["id"]) if context else []
        held = {(row["layer"], row["placeId"]): row["configuration"] for row in rows}
        wanted = self._wanted(fields)
        places = held.keys() | wanted.keys()
        return {place for place in places if held.get(place, {}) != wanted.get(place, {})}

    def _wanted(self, fields: JsonObject) -> dict[tuple[str, str], JsonObject]:
        return {
            self._place(override): override.get("values") or {} for override in fields["overrides"]
        }

    def _place(self, override: JsonObject) -> tuple[str, str]:
        layer = override.get("layer", "")
        if layer not in _LAYERS or "place" not in override:
            raise Invalid(f"an override needs a place and a layer (one of {', '.join(_LAYERS)})")
        lookups: dict[str, Callable[[], str]] = {
            "project": lambda: find_project(self._api, override["place"])["id"],
            "group": lambda: find_group(self._api, override["place"])["id"],
            "cluster": lambda: find_cluster(self._api, override["place"])["id"],
        }
        return layer.upper(), lookups[layer]()

    def _attributes(self, wanted: JsonObject) -> JsonObject:
        given: JsonObject = {}
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

    def _import(self, entry: JsonObject) -> JsonObject:
        if not {"alias", "service", "export"} <= entry.keys():
            raise Invalid("an import needs alias, service and export", field="imports")
        found = find_service(self._api, entry["service"])["id"]
        given: JsonObject = {"alias": entry["alias"], "sourceId": found, "export": entry["export"]}
        return given | ({"default": json.dumps(entry["default"])} if "default" in entry else {})

    def _done(self, word: str) -> str:
        return f"would be {word}" if self._dry_run else word


def _as_given(flow: Flow) -> dict[str, list[Row]]:
    """Converts a flow of the API to the form of its attributes."""
    exports: list[Row] = [
        {
            "name": export["name"],
            "type": export["type"],
            "value": export["value"],
            "shared": export["shared"],
        }
        for export in flow["exports"]
    ]
    imports: list[Row] = [
        {"alias": entry["alias"], "sourceId": entry["sourceId"], "export": entry["export"]}
        | ({"default": entry["default"]} if entry["default"] is not None else {})
        for entry in flow["imports"]
    ]
    return {"exports": exports, "imports": imports}


def _sorted(items: Iterable[Row]) -> list[str]:
    """Normalizes lists for comparison: parses JSON texts and drops unset fields."""
    found = []
    for item in items:
        meant = {key: value for key, value in item.items() if value not in (None, False)}
        for key in ("value", "default"):
            if key in meant:
                meant[key] = json.loads(str(meant[key]))
        found.append(json.dumps(meant, sort_keys=True))
    return sorted(found)
