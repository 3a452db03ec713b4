"""Manifests of cluster groups and of definitions for many clusters: to the API, and compared.

Manifests name things by URL, handle and name, the API by id: `Ids` knows both.
"""

import json
from collections.abc import Mapping
from typing import Any

from fleet.errors import NotFound
from towline.cli import secretdocuments
from towline.cli.definitions import find, named
from towline.cli.fleetdocuments import GLOBALS, GROUPS, NAMESPACES, SETS, Documents
from towline.cli.session import (
    Api,
    Json,
    find_cluster,
    find_helm_repository,
    find_project,
    find_repository,
)

SORTS: Mapping[str, Documents] = {
    "ClusterGroup": GROUPS,
    "Namespace": NAMESPACES,
    "GlobalService": GLOBALS,
    "ServiceSet": SETS,
}
_PLAIN = (
    "name",
    "description",
    "namespace",
    "onLeave",
    "onDelete",
    "deletionBudget",
    "maxChanging",
)
_MADE_LATER = "(made by this apply)"


class Ids:
    """The ids of what manifests name. With `lenient` what is not there yet has none."""

    def __init__(self, api: Api, *, lenient: bool) -> None:
        self._api = api
        self._lenient = lenient

    def repository(self, url: str) -> str:
        """NotFound: there is none."""
        return self._id(lambda: find_repository(self._api, url))

    def charts(self, url: str) -> str:
        """NotFound: there is no such place of charts."""
        return self._id(lambda: find_helm_repository(self._api, url))

    def cluster(self, handle: str) -> str:
        """NotFound: there is none."""
        return self._id(lambda: find_cluster(self._api, handle))

    def group(self, name: str) -> str:
        """NotFound: there is none."""
        return self._id(lambda: find(self._api, GROUPS, name), f"cluster group {name}")

    def project(self, name: str) -> str:
        """NotFound: there is none."""
        return self._id(lambda: find_project(self._api, name))

    def secret(self, name: str) -> str:
        """NotFound: there is none."""
        ask = self._api.ask
        return self._id(lambda: ask(secretdocuments.ONE, name=name)["secret"], f"secret {name}")

    def _id(self, look: Any, what: str = "") -> str:
        try:
            return look()["id"]
        except NotFound:
            if self._lenient:
                return _MADE_LATER
            if what:
                raise NotFound(f"could not find {what}") from None
            raise


def attributes_of(kind: str, fields: Mapping[str, Any], ids: Ids) -> Json:
    """What the API is given for a manifest."""
    given: Json = {name: fields[name] for name in _PLAIN if name in fields}
    if "project" in fields:
        given["projectId"] = ids.project(fields["project"])
    if "template" in fields:
        given["template"] = _template(fields["template"], ids)
    if kind == "ClusterGroup":
        return given | _group(fields, ids)
    selector = _selector(fields, ids)
    if kind == "GlobalService":
        return _global(given, selector)
    for name in ("labels", "annotations"):
        if name in fields:
            given[name] = _json(fields[name])
    if "quota" in fields:
        given["quota"] = named(fields["quota"])
    if generator := _generator(fields, ids):
        given["generator"] = generator
    return given | ({"selector": selector} if selector else {})


def as_meant(fields: Mapping[str, Any], ids: Ids) -> Json:
    """A manifest in the form in which it is compared: by ids."""
    meant = {name: value for name, value in fields.items() if name != "project"}
    for name, look in (("groups", ids.group), ("ignoreClusters", ids.cluster)):
        if name in meant:
            meant[name] = [look(one) for one in meant[name]]
    if "clusters" in meant:
        meant["clusters"] = [ids.cluster(one) for one in meant["clusters"]]
    for name in ("template", "folders", "requests"):
        part = dict(meant.get(name) or {})
        if "repository" in part:
            meant[name] = {**part, "repository": ids.repository(part["repository"])}
    if "secrets" in meant.get("template", {}):
        uses = {name: ids.secret(one) for name, one in meant["template"]["secrets"].items()}
        meant["template"] = {**meant["template"], "secrets": uses}
    if "helm" in meant.get("template", {}):
        meant["template"] = _charts_as_meant(meant["template"], fields, ids)
    for name in ("template", "folders", "requests"):
        # Each field of these is compared alone: what a manifest leaves out is not its concern.
        for key, value in dict(meant.pop(name, None) or {}).items():
            meant[f"{name} {key}"] = value
    return meant


def as_written(found: Json) -> Json:
    """What the API has, in the same form."""
    selector = found.get("selector") or {}
    written: Json = {
        **{name: found.get(name) for name in (*_PLAIN, "labels", "annotations", "quota", "items")},
        "tags": _words(selector.get("tags") or found.get("tags")),
        "distro": selector.get("distro"),
        "groups": selector.get("groupIds"),
        "ignoreClusters": selector.get("ignoredClusterIds"),
        "clusters": found.get("clusterIds"),
    }
    for name in ("template", "folders", "requests"):
        part = dict(found.get(name) or {})
        part["repository"] = part.pop("repositoryId", None)
        if "kustomizePath" in part:
            path = part.pop("kustomizePath")
            part["kustomize"] = {"path": path} if path else None
        if "configuration" in part:
            part["configuration"] = _words(part["configuration"])
        if "secrets" in part:
            part["secrets"] = {one["name"]: one["secretId"] for one in part["secrets"]}
        if part.get("helm"):
            part["helm"] = {_camel(key): one for key, one in part["helm"].items() if one}
        written |= {f"{name} {key}": value for key, value in part.items()}
    return written


def _charts_as_meant(template: Json, fields: Mapping[str, Any], ids: Ids) -> Json:
    """A template whose chart is from a place of charts has that as its repository."""
    helm = dict(template["helm"])
    named = helm.pop("repository", None)
    if "repository" not in template and not {"folders", "requests"} & fields.keys():
        place = named or helm.pop("url", None)
        template = {**template, **({"repository": ids.charts(place)} if place else {})}
    return {**template, "helm": helm}


def _selector(fields: Mapping[str, Any], ids: Ids) -> Json:
    given: Json = {}
    if "tags" in fields:
        given["tags"] = named(fields["tags"])
    if "distro" in fields:
        given["distro"] = fields["distro"]
    if "groups" in fields:
        given["groupIds"] = [ids.group(one) for one in fields["groups"]]
    if "ignoreClusters" in fields:
        given["ignoredClusterIds"] = [ids.cluster(one) for one in fields["ignoreClusters"]]
    return given


def _global(given: Json, selector: Json) -> Json:
    """Global services have the conditions beside all else, and `cascade` for `onLeave`."""
    if "ignoredClusterIds" in selector:
        selector["ignoreClusters"] = selector.pop("ignoredClusterIds")
    if "onLeave" in given:
        delete = given.pop("onLeave") == "DELETE"
        given["cascade"] = {"delete": delete, "detach": not delete}
    return given | selector


def _group(fields: Mapping[str, Any], ids: Ids) -> Json:
    given: Json = {}
    if "tags" in fields:
        given["tags"] = named(fields["tags"])
    if "clusters" in fields:
        given["clusterIds"] = [ids.cluster(one) for one in fields["clusters"]]
    return given


def _template(fields: Mapping[str, Any], ids: Ids) -> Json:
    given = {key: value for key, value in fields.items() if key != "repository"}
    if "repository" in fields:
        given["repositoryId"] = ids.repository(fields["repository"])
    if "repository" in fields.get("helm", {}):
        helm = dict(fields["helm"])
        given["helm"] = {"repositoryId": ids.charts(helm.pop("repository")), **helm}
    if "configuration" in fields:
        given["configuration"] = named(fields["configuration"])
    if "secrets" in fields:
        found = fields["secrets"].items()
        given["secrets"] = [{"name": k, "secretId": ids.secret(one)} for k, one in found]
    return given


def _generator(fields: Mapping[str, Any], ids: Ids) -> Json:
    given: Json = {}
    for name in ("folders", "requests"):
        if name in fields:
            part = {key: value for key, value in fields[name].items() if key != "repository"}
            given[name] = {**part, "repositoryId": ids.repository(fields[name]["repository"])}
    if "items" in fields:
        given["items"] = [named(one) for one in fields["items"]]
    return given


def _words(values: Any) -> dict[str, str]:
    return {one["name"]: one["value"] for one in values or ()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _json(value: Any) -> str:
    return json.dumps(value)
