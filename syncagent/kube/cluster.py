"""The API server: the port `KubeApi` over HTTP."""

import hashlib
import re
from collections.abc import AsyncIterator
from urllib.parse import quote

import structlog

from core.runtime.clock import Clock
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from syncagent.domain.managed_fields import Entry
from syncagent.domain.objects import KubeObject, metadata_of, ref_of, resource_version
from syncagent.domain.ownership import FIELD_MANAGER
from syncagent.kube.client import APPLY, JSON_PATCH, MERGE, KubeClient
from syncagent.kube.discovery import ApiDiscovery, Resource
from syncagent.kube.watch import KindWatcher
from syncagent.ports import Deletion, Notice, RequestRefused, Sink, UnknownApi

_METADATA_LIST = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
_PAGE = 500
_LOG_LINES, _LOG_BYTES = 20, 32 << 10
_WARNINGS_READ, _WARNINGS_TOLD = 50, 3
_EVENT = GroupVersionKind("", "v1", "Event")
_SAID = 1024
_PLAIN = re.compile(r"[A-Za-z0-9._-]*")

log = structlog.get_logger(__name__)


class KubeCluster:
    """Implements `ports.KubeApi`."""

    def __init__(self, client: KubeClient, clock: Clock) -> None:
        self._client = client
        self._clock = clock
        self._discovery = ApiDiscovery(client)

    async def namespaced(self, api: GroupVersionKind) -> bool:
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
        except RequestRefused as error:
            if error.status == 404 and not _is_namespace_missing(error):
                self._discovery.forget(ref.api)
            raise

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        try:
            resource = await self._discovery.resource(ref.api)
            return await self._client.request("GET", _path(resource, ref))
        except UnknownApi:
            return None
        except RequestRefused as error:
            if error.status == 404:
                return None
            raise

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
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
            answer = await self._client.request("DELETE", _path(resource, ref), body=body)
        except RequestRefused as error:
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
        except RequestRefused as error:
            if error.status != 404:
                raise

    async def replace_managed_fields(
        self, ref: ObjectRef, live: KubeObject, entries: list[Entry]
    ) -> KubeObject:
        resource = await self._discovery.resource(ref.api)
        version = metadata_of(live).get("resourceVersion")
        patch = [
            {"op": "replace", "path": "/metadata/managedFields", "value": entries},
            {"op": "replace", "path": "/metadata/resourceVersion", "value": version},
        ]
        return await self._client.request(
            "PATCH", _path(resource, ref), body=patch, content_type=JSON_PATCH
        )

    async def log_tail(self, pod: ObjectRef, container: str, *, previous: bool) -> str:
        resource = await self._discovery.resource(pod.api)
        query = {
            **({"container": container} if container else {}),
            "previous": "true" if previous else "false",
            "tailLines": str(_LOG_LINES),
            "limitBytes": str(_LOG_BYTES),
        }
        text = await self._client.text(_path(resource, pod) + "/log", query, _LOG_BYTES)
        # Half a line may be half a secret, which masking would miss.
        cut = len(text.encode()) >= _LOG_BYTES and not text.endswith("\n")
        return text[: text.rfind("\n") + 1] if cut else text

    async def warnings(self, ref: ObjectRef, uid: str) -> list[str]:
        resource = await self._discovery.resource(_EVENT)
        query = {
            "fieldSelector": f"involvedObject.uid={uid},type=Warning",
            "limit": str(_WARNINGS_READ),
        }
        answer = await self._client.request("GET", resource.path(ref.namespace), query=query)
        events = sorted(answer.get("items") or (), key=_when, reverse=True)
        said = (f"{event.get('reason')}: {event.get('message')}" for event in events)
        return list(dict.fromkeys(said))[:_WARNINGS_TOLD]

    async def tell(self, notice: Notice) -> None:
        event = _event(notice, self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ"))
        # An event is allowed wherever its object is, so a subclass must not check it again.
        await KubeCluster.apply(self, ref_of(event), event, force=True)

    async def follow(
        self, api: GroupVersionKind, namespace: str, selector: str, sink: Sink
    ) -> None:
        follower = KindWatcher(self._client, self._discovery, self._clock, sink)
        await follower.run(api, namespace, selector)

    async def find(self, selector: str) -> AsyncIterator[KubeObject]:
        for resource in await self._discovery.listable():
            try:
                async for live in self._metadata(resource, "", selector):
                    yield live
            except RequestRefused as error:
                log.warning("kind skipped", api=str(resource.api), reason=error.message)

    async def versions(
        self, api: GroupVersionKind, namespace: str, selector: str
    ) -> dict[ObjectKey, int]:
        resource = await self._discovery.resource(api)
        found = self._metadata(resource, namespace, selector)
        return {ref_of(live).key: resource_version(live) async for live in found}

    async def ping(self) -> None:
        await self._client.ping()

    async def _metadata(
        self, resource: Resource, namespace: str, selector: str
    ) -> AsyncIterator[KubeObject]:
        """Iterates over the metadata of all matching objects of a kind, one page at a time.
        An empty namespace means all namespaces.
        """
        query = {"labelSelector": selector, "limit": str(_PAGE)}
        while True:
            answer = await self._client.request(
                "GET", resource.path(namespace), query=query, accept=_METADATA_LIST
            )
            names = {"apiVersion": resource.api.group_version, "kind": resource.api.kind}
            for item in answer.get("items") or ():
                yield item | names
            more = (answer.get("metadata") or {}).get("continue")
            if not more:
                return
            query["continue"] = more


def _path(resource: Resource, ref: ObjectRef) -> str:
    return resource.path(_segment(ref.namespace), _segment(ref.name))


def _segment(name: str) -> str:
    """Encodes one segment of a path; most names need no encoding."""
    return name if _PLAIN.fullmatch(name) else quote(name, safe="")


def _is_namespace_missing(error: RequestRefused) -> bool:
    return error.message.startswith("namespaces ")


def _when(event: KubeObject) -> str:
    """Returns the time when an event was last seen, from either of its two fields."""
    return event.get("lastTimestamp") or event.get("eventTime") or ""


def _event(notice: Notice, now: str) -> KubeObject:
    """Builds the event of a notice; equal notices have equal names."""
    ref = notice.ref
    about = f"{ref.kind}/{notice.uid}/{notice.reason}/{notice.message}"
    digest = hashlib.blake2b(about.encode(), digest_size=8).hexdigest()
    regarding = {
        "apiVersion": ref.api.group_version,
        "kind": ref.kind,
        "name": ref.name,
        **({"namespace": ref.namespace} if ref.namespace else {}),
        **({"uid": notice.uid} if notice.uid else {}),
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{ref.name[:200]}.{digest}",
            "namespace": ref.namespace or "default",
        },
        "involvedObject": regarding,
        "type": "Warning" if notice.warns else "Normal",
        "reason": notice.reason or "Towline",
        "message": notice.message[:_SAID],
        "source": {"component": "towline-agent"},
        "count": notice.count,
        "firstTimestamp": now,
        "lastTimestamp": now,
    }
