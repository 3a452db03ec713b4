"""Watches of owned objects: one for each kind in use; descendants have watches of their own.
Owned objects are selected by label. A kind that may not be watched in all namespaces is watched in
the namespaces of its owned objects and running hooks. If that is forbidden too, its objects are
polled one by one. The watches of a kind end once no service has or awaits an object of it.
"""

import asyncio
from collections.abc import Callable

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.health import HealthState
from core.spec.objects import GroupVersionKind, ObjectKey, ObjectRef
from core.spec.status import Problem
from syncagent.domain.events import ObjectGone, ObjectSeen, Observation, WatchListed, WatchRefused
from syncagent.domain.objects import KubeObject, key_of, metadata_of, ref_of
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.observed.object_status import HealthStatus
from syncagent.domain.ownership import SERVICE_LABEL, owner_of, run_of
from syncagent.ports import KubeApi, RequestRefused
from syncagent.reconcile.observe.descendants import Descendants
from syncagent.reconcile.registry import ServiceRegistry, ServiceState

_ALL = ""
_POLL_INTERVAL_S = 30.0


class Watchers:
    """Starts watches for owned objects and queues work for their events."""

    def __init__(
        self,
        cluster: KubeApi,
        registry: ServiceRegistry,
        tasks: Tasks,
        descendants: Descendants,
        clock: Clock,
        on_observation: Callable[[ServiceState, bool], None],
    ) -> None:
        """`on_observation(service, must_process)` is called for each observation; without
        `must_process`, only the reported status changes.
        """
        self._descendants = descendants
        self._clock = clock
        self._namespace_watches: dict[GroupVersionKind, dict[str, asyncio.Task[None]]] = {}
        self._polled: set[tuple[GroupVersionKind, str]] = set()
        self._cluster = cluster
        self._registry = registry
        self._tasks = tasks
        self._notify = on_observation
        self._cluster_watches: dict[GroupVersionKind, asyncio.Task[None]] = {}

    def watch(self, ref: ObjectRef) -> None:
        """Watches this object and its descendants from now on."""
        api = ref.api
        if api not in self._cluster_watches:
            self._cluster_watches[api] = self._start_watch(api, _ALL)
        elif api in self._namespace_watches:
            self._watch_namespace(api, ref.namespace)
        self._descendants.watch(ref, self._registry.uid_of(ref.key))

    def tidy(self) -> None:
        """Ends the watches that no service needs any more."""
        registry = self._registry
        kinds = registry.awaited_kinds()
        for api in self._cluster_watches.keys() - registry.apis():
            if (api.group, api.kind) not in kinds:
                self._end_watches(api)
        for api, running in self._namespace_watches.items():
            for namespace in running.keys() - registry.namespaces_of(api):
                running.pop(namespace).cancel()
        self._descendants.keep_only(registry.workloads())

    def _end_watches(self, api: GroupVersionKind) -> None:
        self._cluster_watches.pop(api).cancel()
        for task in self._namespace_watches.pop(api, {}).values():
            task.cancel()
        self._polled = {place for place in self._polled if place[0] != api}
        self._registry.drop_unlisted_claims(api, _ALL, ())

    def _start_watch(self, api: GroupVersionKind, namespace: str) -> asyncio.Task[None]:
        name = f"watch/{api.kind}/{namespace or 'all'}"
        work = self._cluster.follow(api, namespace, SERVICE_LABEL, self._on_object)
        return self._tasks.forever(name, work)

    def _on_object(self, observation: Observation) -> None:
        if isinstance(observation, WatchRefused):
            self._on_list_forbidden(observation.api, observation.namespace)
            return
        if isinstance(observation, WatchListed):
            self._on_list_allowed(observation.api, observation.namespace)
            self._registry.drop_unlisted_claims(
                observation.api, observation.namespace, observation.keys
            )
            self._handle_unlisted_objects(observation)
            return
        key = key_of(observation.live)
        service = self._registry.owner_of_key(key)
        owned = service.owned[key] if service is not None else None
        if (
            owned is not None
            and isinstance(observation, ObjectSeen)
            and owned.is_known(observation.live)
        ):
            return
        if run_of(observation.live) is not None:
            self._on_hook(key, observation.live)
            return
        claimed = self._is_claimed(observation)
        if service is None or owned is None or owned.ref.api != observation.api:
            return
        if claimed:
            # Two installations would fight over the object for ever: people must decide.
            ref = ref_of(observation.live)
            service.failures[key] = Problem(
                self._registry.conflicting_owner(service, ref), reason="Claimed", ref=ref
            )
        elif isinstance(observation, ObjectGone) or owner_of(observation.live) == service.id:
            service.inbox[key] = observation
        else:
            # Our labels were changed: the object counts as gone and is healed like that.
            service.inbox[key] = ObjectGone(observation.api, observation.live)
        self._notify(service, True)

    def _is_claimed(self, observation: ObjectSeen | ObjectGone) -> bool:
        """Reports whether an agent of another installation claims an object."""
        if isinstance(observation, ObjectGone):
            self._registry.foreign_claims.pop(ref_of(observation.live).key, None)
            return False
        return self._registry.record_foreign_claim(observation.live)

    def _on_list_forbidden(self, api: GroupVersionKind, namespace: str) -> None:
        """Handles a kind that may not be listed or watched, in one namespace or in all."""
        if namespace != _ALL:
            self._start_polling(api, namespace)
            return
        self._namespace_watches.setdefault(api, {})
        for used in self._registry.namespaces_of(api):
            self._watch_namespace(api, used)

    def _watch_namespace(self, api: GroupVersionKind, namespace: str) -> None:
        running = self._namespace_watches[api]
        if not namespace:
            self._start_polling(api, namespace)
        elif namespace not in running:
            running[namespace] = self._start_watch(api, namespace)

    def _on_list_allowed(self, api: GroupVersionKind, namespace: str) -> None:
        """Ends the fallbacks of a watch whose list has succeeded."""
        self._polled.discard((api, namespace))
        for task in self._namespace_watches.pop(api, {}).values() if namespace == _ALL else ():
            task.cancel()

    def _start_polling(self, api: GroupVersionKind, namespace: str) -> None:
        if (api, namespace) not in self._polled:
            self._polled.add((api, namespace))
            self._tasks.spawn(f"round/{api.kind}", self._poll(api, namespace))

    async def _poll(self, api: GroupVersionKind, namespace: str) -> None:
        while (api, namespace) in self._polled:
            for owned in self._registry.objects_of(api, namespace):
                await self._read_object(owned)
            await self._clock.sleep(_POLL_INTERVAL_S)

    async def _read_object(self, owned: OwnedObject) -> None:
        try:
            live = await self._cluster.get(owned.ref)
        except RequestRefused as error:
            owned.seen, owned.verdict = (
                True,
                HealthStatus(HealthState.PROGRESSING, error.message, error.reason),
            )
            self._queue_observation(owned, None)
        except TowlineError:
            return
        else:
            gone = ObjectGone(owned.ref.api, _deleted_object(owned.version))
            self._queue_observation(
                owned, gone if live is None else ObjectSeen(owned.ref.api, live)
            )

    def _queue_observation(self, owned: OwnedObject, observation: Observation | None) -> None:
        service = self._registry.get(owned.service_id)
        if service is None:
            return
        if observation is not None:
            service.inbox[owned.key] = observation
        self._notify(service, observation is not None)

    def _on_hook(self, key: ObjectKey, live: KubeObject) -> None:
        labels = metadata_of(live).get("labels") or {}
        service = self._registry.get(labels.get(SERVICE_LABEL) or "")
        if service is not None and service.gate is not None and key in service.gate.hooks:
            service.observed_hooks[key] = live
            self._notify(service, True)

    def _handle_unlisted_objects(self, observation: WatchListed) -> None:
        """Handles owned objects that are missing from a fresh list."""
        within = observation.namespace if observation.namespace != _ALL else None
        for owned in self._registry.objects_of(observation.api, within):
            service = self._registry.get(owned.service_id)
            if (
                service is None
                or owned.key in observation.keys
                or owned.version > observation.version
            ):
                continue
            owned.seen = True
            service.inbox[owned.key] = ObjectGone(
                observation.api, _deleted_object(observation.version)
            )
            self._notify(service, True)


def _deleted_object(version: int) -> KubeObject:
    """Placeholder for an object that is gone at some resource version."""
    return {"metadata": {"resourceVersion": str(version)}}
