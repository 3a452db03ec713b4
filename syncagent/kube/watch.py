"""List, then watch: the protocol of an informer, without its cache.
Spec: Kubernetes API concepts, "Efficient detection of changes" (resourceVersion, bookmarks, 410
Gone).
"""

import random
from collections.abc import AsyncIterable, AsyncIterator, Mapping

import orjson
import structlog

from core.errors import TowlineError, Unavailable
from core.runtime.backoff import Backoff
from core.runtime.clock import Clock
from core.spec.objects import GroupVersionKind, ObjectKey
from syncagent.domain.events import ObjectGone, ObjectSeen, WatchListed, WatchRefused
from syncagent.domain.objects import KubeObject, key_of, metadata_of
from syncagent.kube.client import JSON, KubeClient
from syncagent.kube.discovery import ApiDiscovery, Resource
from syncagent.ports import RequestRefused, Sink

log = structlog.get_logger(__name__)

_PAGE = 500
# Kinds whose content is large or secret and irrelevant to health: the watch follows only their
# metadata, and the object is read after a change.
_BY_METADATA = {("", "ConfigMap"), ("", "Secret")}
_METADATA = "application/json;as=PartialObjectMetadata{list};g=meta.k8s.io;v=v1"
_WATCH_S = (240, 360)
# A watch that ends sooner was interrupted.
_BRIEF_S = 1.0
_MAX_LINE = 16 << 20


# Forbidden kinds are seldom allowed soon.
_REFUSED_S = 300.0


class _Expired(Exception):
    """The resource version has expired on the server; list again."""


class KindWatcher:
    """Follows one kind in one namespace (or all) until cancelled."""

    def __init__(
        self, client: KubeClient, discovery: ApiDiscovery, clock: Clock, sink: Sink
    ) -> None:
        self._client = client
        self._discovery = discovery
        self._clock = clock
        self._sink = sink
        self._backoff = _backoff()
        self._version = ""
        self._partial = False

    async def run(self, api: GroupVersionKind, namespace: str, selector: str) -> None:
        """Passes all matching objects to the sink. Ends only by cancellation."""
        query = {"labelSelector": selector} if selector else {}
        self._partial = (api.group, api.kind) in _BY_METADATA
        while True:
            try:
                resource = await self._discovery.resource(api)
                path = resource.path(namespace if resource.namespaced else "")
                if not self._version:
                    self._version = await self._list_objects(resource, path, namespace, query)
                    self._backoff = _backoff()
                began = self._clock.monotonic()
                await self._watch_once(api, path, query)
                if self._clock.monotonic() - began < _BRIEF_S:
                    await self._wait_to_retry(api, "the server ended it immediately")
            except _Expired:
                self._version = ""
                await self._wait_to_retry(api, "the resource version has expired")
            except TowlineError as error:
                if isinstance(error, RequestRefused):
                    self._sink(WatchRefused(api, namespace, error.message))
                    self._version = ""
                    self._discovery.forget(api)
                    self._backoff.limit = _REFUSED_S
                await self._wait_to_retry(api, error.message)

    async def _wait_to_retry(self, api: GroupVersionKind, why: str) -> None:
        wait = self._backoff.next()
        log.warning("watch interrupted", api=str(api), reason=why, retry_s=round(wait, 1))
        await self._clock.sleep(wait)

    async def _list_objects(
        self, resource: Resource, path: str, namespace: str, query: Mapping[str, str]
    ) -> str:
        keys: set[ObjectKey] = set()
        page = {**query, "limit": str(_PAGE)}
        while True:
            try:
                answer = await self._client.request(
                    "GET", path, query=page, accept=self._accept_header("List")
                )
            except RequestRefused as error:
                if error.status == 410:
                    raise _Expired from error
                raise
            for item in answer.get("items") or ():
                live = _with_type(item, resource.api)
                keys.add(key_of(live))
                self._sink(ObjectSeen(resource.api, live, self._partial))
            meta = answer.get("metadata") or {}
            if not meta.get("continue"):
                break
            page["continue"] = meta["continue"]
        version = meta.get("resourceVersion") or ""
        number = int(version) if version.isdecimal() else 0
        self._sink(WatchListed(resource.api, namespace, frozenset(keys), number))
        return version

    async def _watch_once(self, api: GroupVersionKind, path: str, query: Mapping[str, str]) -> None:
        """Watches from the present version until the server ends the watch."""
        options = {
            **query,
            "watch": "1",
            "allowWatchBookmarks": "true",
            "resourceVersion": self._version,
            "timeoutSeconds": str(random.randint(*_WATCH_S)),
        }
        try:
            async with self._client.stream(path, options, self._accept_header("")) as stream:
                async for line in _split_lines(stream):
                    self._version = (
                        self._pass_on_event(api, _parse_event(api, line)) or self._version
                    )
                    self._backoff.reset()
        except RequestRefused as error:
            if error.status == 410:
                raise _Expired from error
            raise

    def _accept_header(self, list_kind: str) -> str:
        return _METADATA.format(list=list_kind) if self._partial else JSON

    def _pass_on_event(self, api: GroupVersionKind, event: KubeObject) -> str:
        """Passes one event to the sink and returns its resource version."""
        live: KubeObject = event.get("object") or {}
        kind = event.get("type")
        if kind == "ERROR":
            if live.get("code") == 410:
                raise _Expired
            raise Unavailable(f"watch of {api}: {live.get('message')}")
        if kind != "BOOKMARK":
            obj = _with_type(live, api)
            self._sink(
                ObjectGone(api, obj) if kind == "DELETED" else ObjectSeen(api, obj, self._partial)
            )
        return metadata_of(live).get("resourceVersion") or ""


def _parse_event(api: GroupVersionKind, line: bytes) -> KubeObject:
    """Parses one event. Unavailable: not an event, for example from an intermediary."""
    try:
        event = orjson.loads(line)
    except orjson.JSONDecodeError:
        event = None
    if not isinstance(event, dict):
        raise Unavailable(f"watch of {api}: the response is not a watch event: {line[:100]!r}")
    return event


def _backoff() -> Backoff:
    return Backoff(first=0.5, limit=30.0)


def _with_type(item: KubeObject, api: GroupVersionKind) -> KubeObject:
    """Sets apiVersion and kind, which list items lack and metadata-only objects have
    differently.
    """
    item["apiVersion"], item["kind"] = api.group_version, api.kind
    return item


async def _split_lines(stream: AsyncIterable[bytes]) -> AsyncIterator[bytes]:
    """Splits a watch into lines, independent of network packets."""
    rest = b""
    async for part in stream:
        *whole, rest = (rest + part).split(b"\n")
        for line in whole:
            if line:
                yield line
        if len(rest) > _MAX_LINE:
            raise Unavailable(f"a watch event is longer than {_MAX_LINE:,} bytes")
