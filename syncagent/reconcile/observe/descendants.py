"""Descendants of owned workloads and hooks: replica sets, jobs, pods.
They cannot carry our label, because it would change the pod template and restart everything. So the
agent watches the namespaces of the workloads and matches descendants by owner; from
`_NAMESPACES_LIMIT` namespaces on, one watch of all namespaces is cheaper. Descendants of other
workloads are skipped; if their owner becomes ours, their kind is listed again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from syncagent.domain.events import ObjectGone, ObjectSeen, Observation, WatchListed, WatchRefused
from syncagent.domain.objects import KubeObject, controller_uid, metadata_of, ref_of
from syncagent.domain.observed.inventory import child_of
from syncagent.domain.observed.pods import crash_of
from syncagent.domain.observed.unmanaged_children import WatchPlace
from syncagent.ports import KubeApi
from syncagent.reconcile.diagnostics import Diagnostics
from syncagent.reconcile.registry import ServiceRegistry

_REPLICA_SET = GroupVersionKind("apps", "v1", "ReplicaSet")
_JOB = GroupVersionKind("batch", "v1", "Job")
_POD = GroupVersionKind("", "v1", "Pod")
_CHILD_KINDS: dict[tuple[str, str], tuple[GroupVersionKind, ...]] = {
    ("apps", "Deployment"): (_REPLICA_SET, _POD),
    ("apps", "ReplicaSet"): (_POD,),
    ("apps", "StatefulSet"): (_POD,),
    ("apps", "DaemonSet"): (_POD,),
    ("batch", "Job"): (_POD,),
    ("batch", "CronJob"): (_JOB, _POD),
}
_INTERMEDIATE_KINDS = {_POD: (_REPLICA_SET, _JOB)}
_NAMESPACES_LIMIT = 8
_ALL = ""
# Children of many new owners are listed together.
_TOGETHER_S = 0.2


class Descendants:
    """Watches the kinds of descendants; `mark_changed` gets the id of each service whose
    descendants have changed.
    """

    def __init__(
        self,
        cluster: KubeApi,
        registry: ServiceRegistry,
        tasks: Tasks,
        diagnostics: Diagnostics,
        clock: Clock,
        mark_changed: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._tasks = tasks
        self._diagnostics = diagnostics
        self._clock = clock
        self._mark_changed = mark_changed
        self._running: dict[GroupVersionKind, dict[str, asyncio.Task[None]]] = {}
        self._listed: dict[WatchPlace, asyncio.Event] = {}
        self._to_list_again: set[WatchPlace] = set()

    def watch(self, ref: ObjectRef, uid: str) -> None:
        """Watches the descendants of this workload, including existing ones."""
        for api in _CHILD_KINDS.get((ref.group, ref.kind), ()):
            self._watch(api, ref.namespace)
        self._list_children_of(uid)

    def keep_only(self, workloads: Iterable[ObjectRef]) -> None:
        """Ends the watches that none of these workloads needs."""
        needed: dict[GroupVersionKind, set[str]] = defaultdict(set)
        for ref in workloads:
            for api in _CHILD_KINDS.get((ref.group, ref.kind), ()):
                needed[api].add(ref.namespace)
        for api, running in self._running.items():
            for namespace in list(running):
                if namespace not in needed[api] and (namespace != _ALL or not needed[api]):
                    self._end_watch(api, namespace)
                    self._drop_namespace(api, namespace)

    def _watch(self, api: GroupVersionKind, namespace: str) -> None:
        running = self._running.setdefault(api, {})
        if namespace in running or _ALL in running:
            return
        if len(running) >= _NAMESPACES_LIMIT:
            for watched in list(running):
                self._end_watch(api, watched)
            namespace = _ALL
        self._start_watch(api, namespace)

    def _start_watch(self, api: GroupVersionKind, namespace: str) -> None:
        self._listed.setdefault((api, namespace), asyncio.Event())
        name = f"watch/{api.kind}/{namespace or 'all'}"
        task = self._tasks.forever(name, self._follow(api, namespace))
        self._running[api][namespace] = task

    def _end_watch(self, api: GroupVersionKind, namespace: str) -> None:
        self._running[api].pop(namespace).cancel()
        self._listed.pop((api, namespace)).set()

    async def _follow(self, api: GroupVersionKind, namespace: str) -> None:
        """Follows a kind; lists replica sets and jobs before their pods."""
        for between in _INTERMEDIATE_KINDS.get(api, ()):
            if (listed := self._listed.get((between, namespace))) is not None:
                await listed.wait()
        await self._cluster.follow(api, namespace, "", self._on_descendant)

    def _list_children_of(self, uid: str) -> None:
        """Lists the skipped children of a new owner of ours."""
        places = self._registry.unmanaged_children.places_of(uid)
        if places and not self._to_list_again:
            self._tasks.spawn("descendants", self._list_skipped_children())
        self._to_list_again.update(places)

    async def _list_skipped_children(self) -> None:
        await self._clock.sleep(_TOGETHER_S)
        places, self._to_list_again = self._to_list_again, set()
        for api, namespace in {(api, self._watched_namespace(api, place)) for api, place in places}:
            if namespace in self._running.get(api, {}):
                self._running[api].pop(namespace).cancel()
                self._start_watch(api, namespace)

    def _watched_namespace(self, api: GroupVersionKind, namespace: str) -> str:
        return _ALL if _ALL in self._running.get(api, {}) else namespace

    def _on_descendant(self, observation: Observation) -> None:
        if isinstance(observation, WatchListed | WatchRefused):
            if (listed := self._listed.get((observation.api, observation.namespace))) is not None:
                listed.set()
            if isinstance(observation, WatchListed):
                self._drop_unlisted(observation)
            return
        owner_uid, ref = controller_uid(observation.live), ref_of(observation.live)
        unmanaged_children = self._registry.unmanaged_children
        uid = metadata_of(observation.live).get("uid") or ""
        if isinstance(observation, ObjectSeen):
            self._drop_namesake(ref.key, uid)
        if isinstance(observation, ObjectGone) or not owner_uid:
            unmanaged_children.drop(ref.key, ref.api)
            self._drop_descendant(uid)
        elif self._registry.service_of_descendant(owner_uid) is None:
            self._drop_descendant(uid)
            unmanaged_children.put(ref.key, ref.api, owner_uid)
        elif isinstance(observation, ObjectSeen):
            unmanaged_children.drop(ref.key, ref.api)
            self._add_descendant(observation.live)

    def _drop_namesake(self, key: ObjectKey, uid: str) -> None:
        """Drops an older object of the same name, as a stateful set's recreated pod."""
        former = self._registry.tree.uid_of(key)
        if former not in ("", uid):
            self._drop_descendant(former)

    def _add_descendant(self, live: KubeObject) -> None:
        child = child_of(live)
        if child.ref.kind == "Pod":
            child = self._diagnostics.with_log_tail(child, crash_of(live))
        if self._registry.tree.put(child):
            self._notify_service(child.uid)
            self._list_children_of(child.uid)

    def _drop_unlisted(self, observation: WatchListed) -> None:
        """Drops descendants that are missing from a fresh list."""
        self._registry.unmanaged_children.keep_only(
            observation.api, observation.namespace, observation.keys
        )
        for child in self._registry.tree.members(observation.api.kind, observation.namespace):
            if child.ref.key not in observation.keys:
                self._drop_descendant(child.uid)

    def _drop_namespace(self, api: GroupVersionKind, namespace: str) -> None:
        self._registry.unmanaged_children.keep_only(api, namespace, ())
        for child in self._registry.tree.members(api.kind, namespace):
            self._drop_descendant(child.uid)

    def _drop_descendant(self, uid: str) -> None:
        self._diagnostics.drop(uid)
        if self._registry.tree.get(uid) is None:
            return
        service = self._registry.service_of_descendant(uid)
        self._registry.tree.drop(uid)
        if service is not None:
            self._mark_changed(service.id)

    def _notify_service(self, uid: str) -> None:
        service = self._registry.service_of_descendant(uid)
        if service is not None:
            self._mark_changed(service.id)
