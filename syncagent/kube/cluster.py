"""The cluster as the use cases see it: the port `Cluster` over HTTP."""

from urllib.parse import quote

from fleet.runtime.clock import Clock
from syncagent.domain.events import ClusterFacts
from syncagent.domain.objects import Api, KubeObject, ObjectRef, metadata_of
from syncagent.domain.ownership import FIELD_MANAGER
from syncagent.kube.client import APPLY, MERGE, KubeClient
from syncagent.kube.discovery import Discovery, Resource
from syncagent.kube.watch import Follower
from syncagent.ports import Deletion, Refused, Sink, UnknownApi

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 500
_DISTRIBUTIONS = ("eks", "gke", "aks", "k3s", "rke2", "k0s")


class KubeCluster:
    """Fills in `ports.Cluster`."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._discovery = Discovery(client)

    async def namespaced(self, api: Api) -> bool:
        return (await self._discovery.resource(api)).namespaced

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        resource = await self._discovery.resource(ref.api)
        try:
            return await self._client.request(
                "PATCH", _path(resource, ref), query=query, body=body, content_type=APPLY
            )
        except Refused as error:
            if error.status == 404 and not _is_namespace_missing(error):
                self._discovery.forget(ref.api)
            raise

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        try:
            resource = await self._discovery.resource(ref.api)
            return await self._client.request("GET", _path(resource, ref))
        except UnknownApi:
            return None
        except Refused as error:
            if error.status == 404:
                return None
            raise

    async def delete(self, ref: ObjectRef, live: KubeObject) -> Deletion:
        resource = await self._discovery.resource(ref.api)
        meta = metadata_of(live)
        body = {
            "propagationPolicy": "Background",
            "preconditions": {
                "uid": meta.get("uid"),
                "resourceVersion": meta.get("resourceVersion"),
            },
        }
        try:
            answer = await self._client.request("DELETE", _path(resource, ref), body=body)
        except Refused as error:
            if error.status == 404:
                return Deletion(gone=True)
            raise
        return Deletion(gone=not metadata_of(answer).get("deletionTimestamp"))

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        try:
            resource = await self._discovery.resource(ref.api)
            await self._client.request(
                "PATCH", _path(resource, ref), body=patch, content_type=MERGE
            )
        except UnknownApi:
            return
        except Refused as error:
            if error.status != 404:
                raise

    async def follow(self, api: Api, namespace: str, selector: str, sink: Sink) -> None:
        follower = Follower(self._client, self._discovery, self._clock, sink)
        await follower.run(api, namespace, selector)

    async def find(self, selector: str) -> list[KubeObject]:
        found = []
        for resource in await self._discovery.listable():
            found += await self._find_kind(resource, selector)
        return found

    async def ping(self) -> None:
        await self._client.ping()

    async def facts(self) -> ClusterFacts:
        """What kind of cluster this is."""
        version = (await self._client.request("GET", "/version")).get("gitVersion") or ""
        nodes = await self._client.request("GET", "/api/v1/nodes", query={"limit": "1"})
        rest = (nodes.get("metadata") or {}).get("remainingItemCount") or 0
        name = next((d for d in _DISTRIBUTIONS if d in version), "")
        return ClusterFacts(version, name, len(nodes.get("items") or ()) + rest)

    async def _find_kind(self, resource: Resource, selector: str) -> list[KubeObject]:
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        found: list[KubeObject] = []
        while True:
            answer = await self._client.request(
                "GET", resource.path(), query=query, accept=_METADATA_LIST
            )
            names = {"apiVersion": resource.api.group_version, "kind": resource.api.kind}
            found += [item | names for item in answer.get("items") or ()]
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                return found
            query["continue"] = more


def _path(resource: Resource, ref: ObjectRef) -> str:
    return resource.path(quote(ref.namespace, safe=""), quote(ref.name, safe=""))


def _is_namespace_missing(error: Refused) -> bool:
    return error.message.startswith("namespaces ")
