"""Converts and compares manifests of cluster groups and generators.

Manifests refer to resources by URL, handle or name, the API by id: `ResourceIds` translates.
"""

import json
from collections.abc import Callable, Mapping
from typing import NamedTuple

from core.errors import NotFound
from core.json_object import JsonObject
from towline.cli.clusters.find import find_cluster
from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_group
from towline.cli.projects.find import find_project
from towline.cli.repositories.find import find_helm_repository, find_repository
from towline.cli.secrets.find import find_secret
from towline.cli.services.find import find_service
from towline.cli.shell.output import Row
from towline.cli.shell.session import named
from towline.operations import GraphQLApi


class GeneratorKind(NamedTuple):
    """Operations of one kind."""

    find: Callable[[GraphQLApi, str], Row]
    create: Callable[..., Row]
    update: Callable[..., Row]


GENERATORS: Mapping[str, GeneratorKind] = {
    "ClusterGroup": GeneratorKind(
        lambda api, name: operations.cluster_group(api, name=name),
        operations.create_cluster_group,
        operations.update_cluster_group,
    ),
    "Namespace": GeneratorKind(
        lambda api, name: operations.namespace(api, name=name),
        operations.create_namespace,
        operations.update_namespace,
    ),
    "GlobalService": GeneratorKind(
        lambda api, name: operations.global_service(api, name=name),
        operations.create_global_service,
        operations.update_global_service,
    ),
    "ServiceSet": GeneratorKind(
        lambda api, name: operations.service_set(api, name=name),
        operations.create_service_set,
        operations.update_service_set,
    ),
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
_CREATED_LATER = "(created by this apply)"


class ResourceIds:
    """Looks up the ids of named resources; if `lenient`, missing ones get a placeholder."""

    def __init__(self, api: GraphQLApi, *, lenient: bool) -> None:
        self._api = api
        self._lenient = lenient

    def repository(self, url: str) -> str:
        """Id of a Git repository. Raises NotFound."""
        return self._id(lambda: find_repository(self._api, url)["id"])

    def charts(self, url: str) -> str:
        """Id of a chart repository. Raises NotFound."""
        return self._id(lambda: find_helm_repository(self._api, url)["id"])

    def cluster(self, handle: str) -> str:
        """Id of a cluster. Raises NotFound."""
        return self._id(lambda: find_cluster(self._api, handle)["id"])

    def service(self, name: str) -> str:
        """Id of a service. Raises NotFound."""
        return self._id(lambda: find_service(self._api, name)["id"])

    def group(self, name: str) -> str:
        """Id of a cluster group. Raises NotFound."""
        return self._id(lambda: find_group(self._api, name)["id"])

    def project(self, name: str) -> str:
        """Id of a project. Raises NotFound."""
        return self._id(lambda: find_project(self._api, name)["id"])

    def secret(self, name: str) -> str:
        """Id of a secret. Raises NotFound."""
        return self._id(lambda: find_secret(self._api, name)["id"])

    def _id(self, look: Callable[[], str]) -> str:
        try:
            return look()
        except NotFound:
            if self._lenient:
                return _CREATED_LATER
            raise


def attributes_of(kind: str, fields: JsonObject, ids: ResourceIds) -> JsonObject:
    """Builds the API's attributes from a manifest."""
    given: JsonObject = {name: fields[name] for name in _PLAIN if name in fields}
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
            given[name] = json.dumps(fields[name])
    if "quota" in fields:
        given["quota"] = named(fields["quota"])
    if generator := _generator(fields, ids):
        given["generator"] = generator
    return given | ({"selector": selector} if selector else {})


def as_meant(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    """Converts a manifest to the form for comparison: with ids."""
    meant = {name: value for name, value in fields.items() if name != "project"}
    for name, look in (("groups", ids.group), ("ignoreClusters", ids.cluster)):
        if name in meant:
            meant[name] = [look(group) for group in meant[name]]
    if "clusters" in meant:
        meant["clusters"] = [ids.cluster(cluster) for cluster in meant["clusters"]]
    for name in ("template", "folders", "requests"):
        part = dict(meant.get(name) or {})
        if "repository" in part:
            meant[name] = {**part, "repository": ids.repository(part["repository"])}
    if "secrets" in meant.get("template", {}):
        uses = {name: ids.secret(secret) for name, secret in meant["template"]["secrets"].items()}
        meant["template"] = {**meant["template"], "secrets": uses}
    if "helm" in meant.get("template", {}):
        meant["template"] = _charts_as_meant(meant["template"], fields, ids)
    for name in ("template", "folders", "requests"):
        # Compares each field by itself: a manifest does not change fields that it omits.
        for key, value in dict(meant.pop(name, None) or {}).items():
            meant[f"{name} {key}"] = value
    return meant


def as_written(found: JsonObject) -> JsonObject:
    """Converts the API's state to the same form."""
    selector = found.get("selector") or {}
    written: JsonObject = {
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
            part["secrets"] = {use["name"]: use["secretId"] for use in part["secrets"]}
        if part.get("helm"):
            part["helm"] = {_camel(key): value for key, value in part["helm"].items() if value}
        written |= {f"{name} {key}": value for key, value in part.items()}
    return written


def _charts_as_meant(template: JsonObject, fields: JsonObject, ids: ResourceIds) -> JsonObject:
    """Sets the chart repository as the template's repository, if it has no other."""
    helm = dict(template["helm"])
    named = helm.pop("repository", None)
    if "repository" not in template and not {"folders", "requests"} & fields.keys():
        place = named or helm.pop("url", None)
        template = {**template, **({"repository": ids.charts(place)} if place else {})}
    return {**template, "helm": helm}


def _selector(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    given: JsonObject = {}
    if "tags" in fields:
        given["tags"] = named(fields["tags"])
    if "distro" in fields:
        given["distro"] = fields["distro"]
    if "groups" in fields:
        given["groupIds"] = [ids.group(group) for group in fields["groups"]]
    if "ignoreClusters" in fields:
        given["ignoredClusterIds"] = [ids.cluster(cluster) for cluster in fields["ignoreClusters"]]
    return given


def _global(given: JsonObject, selector: JsonObject) -> JsonObject:
    """Global services have the selector's fields at the top level, and `cascade` for `onLeave`."""
    if "ignoredClusterIds" in selector:
        selector["ignoreClusters"] = selector.pop("ignoredClusterIds")
    if "onLeave" in given:
        delete = given.pop("onLeave") == "DELETE"
        given["cascade"] = {"delete": delete, "detach": not delete}
    return given | selector


def _group(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    given: JsonObject = {}
    if "tags" in fields:
        given["tags"] = named(fields["tags"])
    if "clusters" in fields:
        given["clusterIds"] = [ids.cluster(cluster) for cluster in fields["clusters"]]
    return given


def _template(fields: JsonObject, ids: ResourceIds) -> JsonObject:
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
        given["secrets"] = [{"name": k, "secretId": ids.secret(secret)} for k, secret in found]
    return given


def _generator(fields: JsonObject, ids: ResourceIds) -> JsonObject:
    given: JsonObject = {}
    for name in ("folders", "requests"):
        if name in fields:
            part = {key: value for key, value in fields[name].items() if key != "repository"}
            given[name] = {**part, "repositoryId": ids.repository(fields[name]["repository"])}
    if "items" in fields:
        given["items"] = [named(item) for item in fields["items"]]
    return given


def _words(values: list[dict[str, str]] | None) -> dict[str, str]:
    return {value["name"]: value["value"] for value in values or ()}


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
