"""Descendants of owned workloads and hooks: replica sets, jobs, pods.
They cannot carry our label, because it would change the pod template and restart everything. So the
agent watches the namespaces of the workloads and matches descendants by owner; from
`_NAMESPACES_LIMIT` namespaces on, one watch of all namespaces is cheaper. Descendants of other
workloads are skipped; if their owner becomes ours, their kind is listed again.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Iterable

from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from syncagent.domain.events import Gone, Relisted, Seen, Sighting, Unlisted
from syncagent.domain.inventory import child_of
from syncagent.domain.objects import (
    Api,
    KubeObject,
    ObjectKey,
    ObjectRef,
    controller_uid,
    metadata_of,
    ref_of,
)
from syncagent.domain.pods import crash_of
from syncagent.domain.strays import Place
from syncagent.ports import Cluster
from syncagent.reconcile.evidence import Evidence
from syncagent.reconcile.registry import Registry, Service

_REPLICA_SET = Api("apps", "v1", "ReplicaSet")
_JOB = Api("batch", "v1", "Job")
_POD = Api("", "v1", "Pod")
_BRINGS_FORTH: dict[tuple[str, str], tuple[Api, ...]] = {
    ("apps", "Deployment"): (_REPLICA_SET, _POD),
    ("apps", "ReplicaSet"): (_POD,),
    ("apps", "StatefulSet"): (_POD,),
    ("apps", "DaemonSet"): (_POD,),
    ("batch", "Job"): (_POD,),
    ("batch", "CronJob"): (_JOB, _POD),
}
_BETWEEN = {_POD: (_REPLICA_SET, _JOB)}
_NAMESPACES_LIMIT = 8
_ALL = ""
# Children of many new owners are listed together.
_TOGETHER_S = 0.2


class Offspring:
    """Watches the kinds of descendants; `on_change` gets the service whose descendants have
    changed.
    """

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry,
        tasks: Tasks,
        evidence: Evidence,
        clock: Clock,
        on_change: Callable[[Service], None],
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._tasks = tasks
        self._evidence = evidence
        self._clock = clock
        self._tell = on_change
        self._running: dict[Api, dict[str, asyncio.Task[None]]] = {}
        self._listed: dict[Place, asyncio.Event] = {}
        self._again: set[Place] = set()

    def watch(self, ref: ObjectRef, uid: str) -> None:
        """Watches the descendants of this workload, including existing ones."""
        for api in _BRINGS_FORTH.get((ref.group, ref.kind), ()):
            self._watch(api, ref.namespace)
        self._claim(uid)

    def keep_only(self, workloads: Iterable[ObjectRef]) -> None:
        """Ends the watches that none of these workloads needs."""
        needed: dict[Api, set[str]] = defaultdict(set)
        for ref in workloads:
            for api in _BRINGS_FORTH.get((ref.group, ref.kind), ()):
                needed[api].add(ref.namespace)
        for api, running in self._running.items():
            for namespace in list(running):
                if namespace not in needed[api] and (namespace != _ALL or not needed[api]):
                    self._end(api, namespace)
                    self._forget(api, namespace)

    def _watch(self, api: Api, namespace: str) -> None:
        running = self._running.setdefault(api, {})
        if namespace in running or _ALL in running:
            return
        if len(running) >= _NAMESPACES_LIMIT:
            for one in list(running):
                self._end(api, one)
            namespace = _ALL
        self._begin(api, namespace)

    def _begin(self, api: Api, namespace: str) -> None:
        self._listed.setdefault((api, namespace), asyncio.Event())
        name = f"watch/{api.kind}/{namespace or 'all'}"
        task = self._tasks.forever(name, self._follow(api, namespace))
        self._running[api][namespace] = task

    def _end(self, api: Api, namespace: str) -> None:
        self._running[api].pop(namespace).cancel()
        self._listed.pop((api, namespace)).set()

    async def _follow(self, api: Api, namespace: str) -> None:
        """Follows a kind; lists replica sets and jobs before their pods."""
        for between in _BETWEEN.get(api, ()):
            if (listed := self._listed.get((between, namespace))) is not None:
                await listed.wait()
        await self._cluster.follow(api, namespace, "", self._on_child)

    def _claim(self, uid: str) -> None:
        """Lists the skipped children of a new owner of ours."""
        places = self._registry.strays.places_of(uid)
        if places and not self._again:
            self._tasks.spawn("offspring", self._list_again())
        self._again.update(places)

    async def _list_again(self) -> None:
        await self._clock.sleep(_TOGETHER_S)
        places, self._again = self._again, set()
        for api, namespace in {(api, self._covering(api, place)) for api, place in places}:
            if namespace in self._running.get(api, {}):
                self._running[api].pop(namespace).cancel()
                self._begin(api, namespace)

    def _covering(self, api: Api, namespace: str) -> str:
        return _ALL if _ALL in self._running.get(api, {}) else namespace

    def _on_child(self, sighting: Sighting) -> None:
        if isinstance(sighting, Relisted | Unlisted):
            if (listed := self._listed.get((sighting.api, sighting.namespace))) is not None:
                listed.set()
            if isinstance(sighting, Relisted):
                self._relisted(sighting)
            return
        owner_uid, ref = controller_uid(sighting.live), ref_of(sighting.live)
        strays, uid = self._registry.strays, metadata_of(sighting.live).get("uid") or ""
        if isinstance(sighting, Seen):
            self._drop_namesake(ref.key, uid)
        if isinstance(sighting, Gone) or not owner_uid:
            strays.drop(ref.key, ref.api)
            self._drop(uid)
        elif self._registry.service_above(owner_uid) is None:
            self._drop(uid)
            strays.put(ref.key, ref.api, owner_uid)
        elif isinstance(sighting, Seen):
            strays.drop(ref.key, ref.api)
            self._take(sighting.live)

    def _drop_namesake(self, key: ObjectKey, uid: str) -> None:
        """Drops an older object of the same name, as a stateful set's recreated pod."""
        former = self._registry.tree.uid_of(key)
        if former not in ("", uid):
            self._drop(former)

    def _take(self, live: KubeObject) -> None:
        child = child_of(live)
        if child.ref.kind == "Pod":
            child = self._evidence.explained(child, crash_of(live))
        if self._registry.tree.put(child):
            self._changed(child.uid)
            self._claim(child.uid)

    def _relisted(self, sighting: Relisted) -> None:
        """Drops descendants that are missing from a fresh list."""
        self._registry.strays.keep_only(sighting.api, sighting.namespace, sighting.keys)
        for child in self._registry.tree.members(sighting.api.kind, sighting.namespace):
            if child.ref.key not in sighting.keys:
                self._drop(child.uid)

    def _forget(self, api: Api, namespace: str) -> None:
        self._registry.strays.keep_only(api, namespace, ())
        for child in self._registry.tree.members(api.kind, namespace):
            self._drop(child.uid)

    def _drop(self, uid: str) -> None:
        self._evidence.drop(uid)
        if self._registry.tree.get(uid) is None:
            return
        service = self._registry.service_above(uid)
        self._registry.tree.drop(uid)
        if service is not None:
            self._tell(service)

    def _changed(self, uid: str) -> None:
        service = self._registry.service_above(uid)
        if service is not None:
            self._tell(service)
