"""A cluster in memory that fills in the agent's port `Cluster`, with failures at will."""

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

from core.errors import TowlineError
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from syncagent.domain.events import ObjectGone, ObjectSeen, WatchListed, WatchRefused
from syncagent.domain.managed_fields import Entry
from syncagent.domain.objects import KubeObject, api_of, ref_of
from syncagent.ports import Deletion, ObjectEvent, RequestRefused, Sink

_CLUSTER_WIDE = {"Namespace", "CustomResourceDefinition"}


class FakeCluster:
    """`fail` maps kinds or names to the error that touching them gives; `calls` counts verbs.

    `out_of_reach` is the error that everything gives. `logs` and `warned` have entries by object
    name; `events_written` are the events that the agent wrote. Kinds in `hidden` cannot be listed
    in all namespaces at once. Objects named in `fixed` cannot be changed in place; `forced` are
    those that were applied with the fields of others. Watches of kinds in `by_metadata` send only
    the metadata.
    """

    def __init__(self) -> None:
        self.objects: dict[ObjectKey, KubeObject] = {}
        self.fail: dict[str, TowlineError] = {}
        self.calls: list[tuple[str, str]] = []
        self.out_of_reach: TowlineError | None = None
        self.logs: dict[str, str] = {}
        self.warned: dict[str, list[str]] = {}
        self.events_written: list[ObjectEvent] = []
        self.hidden: set[str] = set()
        self.fixed: set[str] = set()
        self.by_metadata: set[str] = set()
        self.forced: set[ObjectKey] = set()
        self._version = 100
        self._sinks: list[tuple[GroupVersionKind, str, str, Sink]] = []

    async def ping(self) -> None:
        if self.out_of_reach is not None:
            raise self.out_of_reach

    async def namespaced(self, api: GroupVersionKind) -> bool:
        return api.kind not in _CLUSTER_WIDE

    async def apply(
        self, ref: ObjectRef, body: KubeObject, *, force: bool, dry_run: bool = False
    ) -> KubeObject:
        await self._touch("apply", ref)
        if force:
            self.forced.add(ref.key)
        old = self.objects.get(ref.key, {})
        new = _merge(old, body)
        if old and new != old and ref.name in self.fixed:
            raise RequestRefused("data: field is immutable", status=422, reason="Invalid")
        if new == old or dry_run:
            return copy.deepcopy(new if dry_run else old)
        return self.put(new)

    async def get(self, ref: ObjectRef) -> KubeObject | None:
        await self._touch("get", ref)
        return copy.deepcopy(self.objects.get(ref.key))

    async def delete(self, ref: ObjectRef, live: KubeObject, *, orphan: bool = False) -> Deletion:
        await self._touch("delete", ref)
        one = self.objects.get(ref.key)
        if one is not None and one["metadata"].get("finalizers"):
            self.put(one | {"metadata": one["metadata"] | {"deletionTimestamp": "now"}})
            return Deletion(gone=False)
        if one is not None:
            self.drop(ref.key)
        return Deletion(gone=True)

    async def replace_managed_fields(
        self, ref: ObjectRef, live: KubeObject, entries: list[Entry]
    ) -> KubeObject:
        await self._touch("replace_managed_fields", ref)
        one = self.objects[ref.key]
        return self.put(one | {"metadata": one["metadata"] | {"managedFields": entries}})

    async def log_tail(self, pod: ObjectRef, container: str, *, previous: bool) -> str:
        await self._touch("log", pod)
        return self.logs.get(pod.name, "")

    async def warnings(self, ref: ObjectRef, uid: str) -> list[str]:
        await self._touch("warnings", ref)
        return self.warned.get(ref.name, [])

    async def write_event(self, event: ObjectEvent) -> None:
        self.events_written.append(event)

    async def merge(self, ref: ObjectRef, patch: KubeObject) -> None:
        await self._touch("merge", ref)
        self.put(_merge(self.objects[ref.key], patch))

    async def follow(
        self, api: GroupVersionKind, namespace: str, selector: str, sink: Sink
    ) -> None:
        self.calls.append(("follow", f"{api.kind} {namespace}"))
        if api.kind in self.hidden and not namespace:
            sink(WatchRefused(api, namespace, "forbidden"))
            await asyncio.Event().wait()
        self._list(api, namespace, selector, sink)
        self._sinks.append((api, namespace, selector, sink))
        try:
            await asyncio.Event().wait()
        finally:
            self._sinks.remove((api, namespace, selector, sink))

    def _list(self, api: GroupVersionKind, namespace: str, selector: str, sink: Sink) -> None:
        found = {
            key: one for key, one in self.objects.items() if _matches(one, api, namespace, selector)
        }
        for one in found.values():
            sink(self._seen(api, one))
        sink(WatchListed(api, namespace, frozenset(found), self._version))

    async def versions(
        self, api: GroupVersionKind, namespace: str, selector: str
    ) -> dict[ObjectKey, int]:
        self.calls.append(("versions", f"{api.kind} {namespace}"))
        await self.ping()
        if api.kind in self.fail:
            raise self.fail[api.kind]
        label, _, value = selector.partition("=")
        return {
            key: int(one["metadata"]["resourceVersion"])
            for key, one in self.objects.items()
            if _matches(one, api, namespace, "") and _labels(one).get(label) == value
        }

    async def find(self, selector: str) -> AsyncIterator[KubeObject]:
        await self.ping()
        for one in list(self.objects.values()):
            if selector in _labels(one):
                yield copy.deepcopy(one)

    # What a test, or a foreign client, does

    def put(self, one: KubeObject) -> KubeObject:
        """Write an object; all who follow see it."""
        self._version += 1
        new = copy.deepcopy(one)
        key = ref_of(new).key
        meta = new["metadata"]
        meta.setdefault("uid", f"uid-{self._version}")
        meta["resourceVersion"] = str(self._version)
        self.objects[key] = new
        for api, namespace, selector, sink in self._sinks:
            if _matches(new, api, namespace, selector):
                sink(self._seen(api, new))
        return copy.deepcopy(new)

    def drop(self, key: ObjectKey) -> None:
        """Delete an object; all who follow see it."""
        self._version += 1
        gone = self.objects.pop(key)
        gone["metadata"]["resourceVersion"] = str(self._version)
        for api, namespace, selector, sink in self._sinks:
            if _matches(gone, api, namespace, selector):
                sink(ObjectGone(api, copy.deepcopy(gone)))

    def swap(self, key: ObjectKey) -> KubeObject:
        """Make an object anew under its name while all watches are broken; then they list."""
        sinks, self._sinks = self._sinks, []
        meta = {k: v for k, v in self.objects[key]["metadata"].items() if k != "uid"}
        new = self.put(self.objects[key] | {"metadata": meta})
        for sink in sinks:
            self._list(*sink)
        self._sinks = sinks
        return new

    def watched(self) -> set[str]:
        """The kinds that somebody follows."""
        return {api.kind for api, *_ in self._sinks}

    def count(self, verb: str) -> int:
        """Number of calls of a verb."""
        return sum(1 for used, _ in self.calls if used == verb)

    def _seen(self, api: GroupVersionKind, one: KubeObject) -> ObjectSeen:
        """What a watch sends."""
        if api.kind not in self.by_metadata:
            return ObjectSeen(api, copy.deepcopy(one))
        parts = {name: copy.deepcopy(one[name]) for name in ("apiVersion", "kind", "metadata")}
        return ObjectSeen(api, parts, partial=True)

    async def _touch(self, verb: str, ref: ObjectRef) -> None:
        self.calls.append((verb, str(ref)))
        await asyncio.sleep(0)
        await self.ping()
        for name in (ref.kind, ref.name):
            if name in self.fail:
                raise self.fail[name]


def _matches(one: KubeObject, api: GroupVersionKind, namespace: str, selector: str) -> bool:
    placed = not namespace or one["metadata"].get("namespace") == namespace
    return api_of(one) == api and placed and (not selector or selector in _labels(one))


def _labels(one: KubeObject) -> dict[str, Any]:
    return one["metadata"].get("labels") or {}


def _merge(old: Any, new: Any) -> Any:
    """A merge patch (RFC 7386)."""
    if not isinstance(old, dict) or not isinstance(new, dict):
        return copy.deepcopy(new)
    merged = {k: v for k, v in old.items() if k not in new}
    for name, value in new.items():
        if value is not None:
            merged[name] = _merge(old.get(name), value)
    return merged
