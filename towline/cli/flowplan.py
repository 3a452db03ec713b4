"""Manifests of flows and contexts: what they change."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from fleet.errors import Invalid, NotFound
from towline.cli import flowdocuments as documents
from towline.cli.definitions import find
from towline.cli.fleetdocuments import GROUPS
from towline.cli.manifests import Manifest
from towline.cli.session import Api, Json, find_cluster, find_project, find_service

_CONTEXT = {
    "values": "configuration",
    "types": "types",
    "secretsByReference": "secretsByReference",
}
_LAYERS = ("project", "group", "cluster")


class FlowPlan:
    """Brings exports, imports and contexts to what manifests say; with `dry_run` it only tells."""

    def __init__(self, api: Api, *, dry_run: bool) -> None:
        self._api = api
        self._dry_run = dry_run

    def flow(self, manifest: Manifest) -> Iterator[str]:
        """What a service exports and imports."""
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
        """A context with its layers. Its secrets are sent each time, as none is read back."""
        fields = manifest.fields
        found = self._found(documents.CONTEXT, "serviceContext", name=fields["name"])
        wanted = {key: fields[name] for name, key in _CONTEXT.items() if name in fields}
        changes = [key for key, one in wanted.items() if (found or {}).get(key) != one]
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
            yield f"= {manifest.label} unchanged" + (", but for secrets that are new" * told)
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
            key: one if key == "secretsByReference" else json.dumps(one)
            for key, one in wanted.items()
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
        """The layers and places that have otherwise now than they are to have."""
        if "overrides" not in fields:
            return set()
        rows = self._api.ask(documents.OVERRIDES, id=id)["contextOverrides"] if id else []
        held = {(one["layer"], one["placeId"]): one["configuration"] for one in rows}
        wanted = self._wanted(fields)
        places = held.keys() | wanted.keys()
        return {one for one in places if held.get(one, {}) != wanted.get(one, {})}

    def _wanted(self, fields: Mapping[str, Any]) -> dict[tuple[str, str], Json]:
        return {self._place(one): one.get("values") or {} for one in fields["overrides"]}

    def _place(self, one: Json) -> tuple[str, str]:
        layer = one.get("layer", "")
        if layer not in _LAYERS or "place" not in one:
            raise Invalid(f"an override has a layer of {', '.join(_LAYERS)} and a place")
        looks = {
            "project": lambda: find_project(self._api, one["place"]),
            "group": lambda: find(self._api, GROUPS, one["place"]),
            "cluster": lambda: find_cluster(self._api, one["place"]),
        }
        return layer.upper(), looks[layer]()["id"]

    def _attributes(self, wanted: Mapping[str, Any]) -> Json:
        given: Json = {}
        if "exports" in wanted:
            given["exports"] = [
                {**one, "type": one.get("type", "TEXT"), "value": json.dumps(one.get("value"))}
                for one in wanted["exports"]
            ]
        if "imports" in wanted:
            given["imports"] = [self._import(one) for one in wanted["imports"]]
        return given

    def _import(self, one: Json) -> Json:
        if not {"alias", "service", "export"} <= one.keys():
            raise Invalid("an import has alias, service and export", field="imports")
        found = find_service(self._api, one["service"])["id"]
        given: Json = {"alias": one["alias"], "sourceId": found, "export": one["export"]}
        return given | ({"default": json.dumps(one["default"])} if "default" in one else {})

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
    """What the API tells of a flow, in the form in which it is given."""
    exports = [{key: one[key] for key in ("name", "type", "value")} for one in flow["exports"]]
    for one, told in zip(exports, flow["exports"], strict=True):
        one["shared"] = told["shared"]
    imports = [
        {"alias": one["alias"], "sourceId": one["sourceId"], "export": one["export"]}
        | ({"default": one["default"]} if one["default"] is not None else {})
        for one in flow["imports"]
    ]
    return {"exports": exports, "imports": imports}


def _sorted(items: list[Json]) -> list[str]:
    """Lists in a form that compares: JSON texts by what they mean, without what is left out."""
    found = []
    for one in items:
        meant = {key: value for key, value in one.items() if value not in (None, False)}
        for key in ("value", "default"):
            if key in meant:
                meant[key] = json.loads(meant[key])
        found.append(json.dumps(meant, sort_keys=True))
    return sorted(found)
