"""Objects of the API server: the port `ObjectApi` over HTTP."""

import re
from collections.abc import AsyncIterator, Mapping
from typing import Protocol
from urllib.parse import quote

from core.json_object import JsonValue
from core.spec.bundle import KubeObject
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from syncagent.domain.managed_fields import Entry
from syncagent.domain.objects import metadata_of, ref_of, resource_version
from syncagent.domain.ownership import FIELD_MANAGER
from syncagent.kube.client import APPLY, JSON, JSON_PATCH, MERGE
from syncagent.kube.discovery import ApiDiscovery, Resource
from syncagent.ports import Allowed, Deletion, RequestRefused, UnknownApi

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 500
_PLAIN = re.compile(r"[A-Za-z0-9._-]*")


class RequestSender(Protocol):
    """Sends requests to the API server, as the agent or as a service account."""

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: JsonValue = None,
        content_type: str = JSON,
        accept: str = JSON,
    ) -> KubeObject:
        """Sends a request and returns the parsed response. Refused, Unavailable."""
        ...


class KubeObjects:
    """Implements `ports.ObjectApi`."""

    def __init__(
        self, sender: RequestSender, discovery: ApiDiscovery, allowed: Allowed | None = None
    ) -> None:
        self._sender = sender
        self._discovery = discovery
        self._allowed: Allowed = allowed or _every_object

    async def namespaced(self, api: GroupVersionKind) -> bool:
        return (await self._discovery.resource(api)).namespaced

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        self._allowed(ref)
        query = {"fieldManager": FIELD_MANAGER, "force": "true" if force else "false"}
        if dry_run:
            query["dryRun"] = "All"
        resource = await self._discovery.resource(ref.api)
        try:
            return await self._sender.request(
                "PATCH", object_path(resource, ref), query=query, body=body, content_type=APPLY
            )
        except RequestRefused as error:
            if error.status == 404 and not _is_namespace_missing(error):
                self._discovery.forget(ref.api)
            raise

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        try:
            resource = await self._discovery.resource(ref.api)
            return await self._sender.request("GET", object_path(resource, ref))
        except UnknownApi:
            return None
        except RequestRefused as error:
            if error.status == 404:
                return None
            raise

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
        self._allowed(ref)
        resource = await self._discovery.resource(ref.api)
        meta = metadata_of(live)
        body = {
            "propagationPolicy": "Orphan" if orphan else "Background",
            "preconditions": {
                "uid": meta.get("uid"),
                "resourceVersion": meta.get("resourceVersion"),
            },
        }
        try:
            answer = await self._sender.request("DELETE", object_path(resource, ref), body=body)
        except RequestRefused as error:
            if error.status == 404:
                return Deletion(gone=True)
            raise
        return Deletion(gone=not metadata_of(answer).get("deletionTimestamp"))

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        self._allowed(ref)
        try:
            resource = await self._discovery.resource(ref.api)
            await self._sender.request(
                "PATCH", object_path(resource, ref), body=patch, content_type=MERGE
            )
        except UnknownApi:
            return
        except RequestRefused as error:
            if error.status != 404:
                raise

    async def replace_managed_fields(
        self, ref: ObjectRef, live: KubeObject, entries: list[Entry]
    ) -> KubeObject:
        self._allowed(ref)
        resource = await self._discovery.resource(ref.api)
        version = metadata_of(live).get("resourceVersion")
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        return await self._sender.request(
            "PATCH", object_path(resource, ref), body=patch, content_type=JSON_PATCH
        )

    async def versions(
        self, api: GroupVersionKind, namespace: str, selector: str
    ) -> dict[ObjectKey, int]:
        resource = await self._discovery.resource(api)
        found = self.metadata(resource, namespace, selector)
        return {ref_of(live).key: resource_version(live) async for live in found}

    async def metadata(
        self, resource: Resource, namespace: str, selector: str
    ) -> AsyncIterator[KubeObject]:
        """Iterates over the metadata of all matching objects of a kind, one page at a time.
        An empty namespace means all namespaces.
        """
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        while True:
            answer = await self._sender.request(
                "GET", resource.path(namespace), query=query, accept=_METADATA_LIST
            )
            names = {"apiVersion": resource.api.group_version, "kind": resource.api.kind}
            for item in answer.get("items") or ():
                yield item | names
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                return
            query["continue"] = more


def object_path(resource: Resource, ref: ObjectRef) -> str:
    return resource.path(_segment(ref.namespace), _segment(ref.name))


def _segment(name: str) -> str:
    """Encodes one segment of a path; most names need no encoding."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


def _is_namespace_missing(error: RequestRefused) -> bool:
    return error.message.startswith("namespaces ")


def _every_object(ref: ObjectRef) -> None:
    """Allows every object."""
