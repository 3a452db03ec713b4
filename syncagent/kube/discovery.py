"""Discovery of the API server's kinds, their paths, and their scope."""

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass

from core.spec.bundle import KubeObject
from core.spec.objects import GroupVersionKind
from syncagent.kube.client import KubeClient
from syncagent.ports import RequestRefused, UnknownApi

_AGGREGATED = (
    "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList,application/json"
)


@dataclass(frozen=True, slots=True)
class Resource:
    """A kind of the API server; `root` is its path without namespace and plural."""

    api: GroupVersionKind
    root: str
    plural: str
    namespaced: bool

    def path(self, namespace: str = "", name: str = "") -> str:
        """Returns the path of one object, or of the collection."""
        place = f"/namespaces/{namespace}" if namespace else ""
        return f"{self.root}{place}/{self.plural}" + (f"/{name}" if name else "")


class ApiDiscovery:
    """Resources by kind, read one group version at a time and cached.
    A missing kind is never cached, because it may be installed at any moment.
    """

    def __init__(self, client: KubeClient) -> None:
        self._client = client
        self._known: dict[GroupVersionKind, Resource] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def resource(self, api: GroupVersionKind) -> Resource:
        """Returns the resource of a kind. UnknownApi: the server does not have it."""
        if (known := self._known.get(api)) is not None:
            return known
        async with self._locks.setdefault(api.group_version, asyncio.Lock()):
            if api not in self._known:
                await self._load_resources(api)
        if api not in self._known:
            raise UnknownApi(api)
        return self._known[api]

    def forget(self, api: GroupVersionKind) -> None:
        """Drops a kind that the server no longer serves."""
        self._known.pop(api, None)

    async def listable(self) -> list[Resource]:
        """Lists the preferred version of every kind that can be listed and patched."""
        found: dict[tuple[str, str], Resource] = {}
        for path in ("/api", "/apis"):
            answer = await self._client.request("GET", path, accept=_AGGREGATED)
            for group in answer.get("items") or ():
                for resource in _of_group(group):
                    found.setdefault((resource.api.group, resource.api.kind), resource)
        return list(found.values())

    async def api_versions(self) -> list[str]:
        """Lists all versions, and then all kinds as `group/version/Kind`, as Helm reads them."""
        versions, kinds = {"v1"}, set()
        for path in ("/api", "/apis"):
            answer = await self._client.request("GET", path, accept=_AGGREGATED)
            for group in answer.get("items") or ():
                for version, served in _kinds_of_group(group):
                    versions.add(version)
                    kinds |= {f"{version}/{kind}" for kind in served}
            # A server before Kubernetes 1.27 lists only its groups.
            for group in answer.get("groups") or ():
                versions |= {version["groupVersion"] for version in group.get("versions") or ()}
        return [*sorted(versions), *sorted(kinds)]

    async def _load_resources(self, api: GroupVersionKind) -> None:
        root = f"/apis/{api.group_version}" if api.group else f"/api/{api.version}"
        try:
            answer = await self._client.request("GET", root)
        except RequestRefused as error:
            if error.status == 404:
                return
            raise
        for item in answer.get("resources") or ():
            if "/" not in item["name"]:
                found = GroupVersionKind(api.group, api.version, item["kind"])
                self._known[found] = Resource(found, root, item["name"], item["namespaced"])


def _kinds_of_group(group: KubeObject) -> Iterator[tuple[str, set[str]]]:
    """Yields the versions of one entry of an APIGroupDiscoveryList, each with its kinds."""
    name = (group.get("metadata") or {}).get("name")
    for version in group.get("versions") or ():
        kinds = set()
        for item in version.get("resources") or ():
            for resource in (item, *(item.get("subresources") or ())):
                kinds.add((resource.get("responseKind") or {}).get("kind"))
        served = f"{name}/{version['version']}" if name else version["version"]
        yield served, {kind for kind in kinds if kind}


def _of_group(group: KubeObject) -> list[Resource]:
    """Reads the resources of one entry of an APIGroupDiscoveryList, preferred version first."""
    name = (group.get("metadata") or {}).get("name") or ""
    found = []
    for version in group.get("versions") or ():
        root = f"/apis/{name}/{version['version']}" if name else f"/api/{version['version']}"
        for item in version.get("resources") or ():
            if {"list", "patch"} <= set(item.get("verbs") or ()):
                api = GroupVersionKind(name, version["version"], item["responseKind"]["kind"])
                namespaced = item.get("scope") == "Namespaced"
                found.append(Resource(api, root, item["resource"], namespaced))
    return found
