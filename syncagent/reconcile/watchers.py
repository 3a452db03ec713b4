"""Watches of owned objects: one for each kind in use; descendants have watches of their own.
Owned objects are selected by label. A kind that may not be watched in all namespaces is watched in
the namespaces of its owned objects and running hooks. If that is forbidden too, its objects are
polled one by one. The watches of a kind end once no service has or awaits an object of it.
"""

import asyncio
from collections.abc import Callable

from fleet.errors import TowlineError
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from syncagent.domain.events import Gone, Relisted, Seen, Sighting, Unlisted
from syncagent.domain.health import Health, Verdict
from syncagent.domain.inventory import Owned
from syncagent.domain.objects import (
    Api,
    KubeObject,
    ObjectKey,
    ObjectRef,
    key_of,
    metadata_of,
    ref_of,
)
from syncagent.domain.ownership import SERVICE_LABEL, owner_of, run_of
from syncagent.domain.services import Problem
from syncagent.ports import Cluster, Refused
from syncagent.reconcile.offspring import Offspring
from syncagent.reconcile.registry import Registry, Service

_ALL = ""
_ROUND_S = 30.0


class Watchers:
    """Starts watches for owned objects and queues work for their events."""

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry,
        tasks: Tasks,
        offspring: Offspring,
        clock: Clock,
        on_sighting: Callable[[Service, bool], None],
    ) -> None:
        """`on_sighting(service, mail)` is called for each observation; `mail`: it must be
        processed.
        """
        self._offspring = offspring
        self._clock = clock
        self._narrow: dict[Api, dict[str, asyncio.Task[None]]] = {}
        self._blind: set[tuple[Api, str]] = set()
        self._cluster = cluster
        self._registry = registry
        self._tasks = tasks
        self._tell = on_sighting
        self._wide: dict[Api, asyncio.Task[None]] = {}

    def watch(self, ref: ObjectRef) -> None:
        """Watches this object and its descendants from now on."""
        api = ref.api
        if api not in self._wide:
            self._wide[api] = self._follow(api, _ALL)
        elif api in self._narrow:
            self._watch_narrowly(api, ref.namespace)
        self._offspring.watch(ref, self._registry.uid_of(ref.key))

    def tidy(self) -> None:
        """Ends the watches that no service needs any more."""
        registry = self._registry
        kinds = registry.awaited_kinds()
        for api in self._wide.keys() - registry.apis():
            if (api.group, api.kind) not in kinds:
                self._end(api)
        for api, running in self._narrow.items():
            for namespace in running.keys() - registry.places_of(api):
                running.pop(namespace).cancel()
        self._offspring.keep_only(registry.workloads())

    def _end(self, api: Api) -> None:
        self._wide.pop(api).cancel()
        for task in self._narrow.pop(api, {}).values():
            task.cancel()
        self._blind = {place for place in self._blind if place[0] != api}
        self._registry.note_listed(api, _ALL, ())

    def _follow(self, api: Api, namespace: str) -> asyncio.Task[None]:
        name = f"watch/{api.kind}/{namespace or 'all'}"
        work = self._cluster.follow(api, namespace, SERVICE_LABEL, self._on_owned)
        return self._tasks.forever(name, work)

    def _on_owned(self, sighting: Sighting) -> None:
        if isinstance(sighting, Unlisted):
            self._forbidden(sighting.api, sighting.namespace)
            return
        if isinstance(sighting, Relisted):
            self._allowed(sighting.api, sighting.namespace)
            self._registry.note_listed(sighting.api, sighting.namespace, sighting.keys)
            self._missing(sighting)
            return
        key = key_of(sighting.live)
        service = self._registry.claimant(key)
        owned = service.owned[key] if service is not None else None
        if owned is not None and isinstance(sighting, Seen) and owned.is_known(sighting.live):
            return
        if run_of(sighting.live) is not None:
            self._on_hook(key, sighting.live)
            return
        claimed = self._is_claimed(sighting)
        if service is None or owned is None or owned.ref.api != sighting.api:
            return
        if claimed:
            # Two installations would fight over the object for ever: people must decide.
            ref = ref_of(sighting.live)
            service.failures[key] = Problem(self._registry.rival(service, ref), "Claimed", ref)
        elif isinstance(sighting, Gone) or owner_of(sighting.live) == service.id:
            service.inbox[key] = sighting
        else:
            # Our labels were changed: the object counts as gone and is healed like that.
            service.inbox[key] = Gone(sighting.api, sighting.live)
        self._tell(service, True)

    def _is_claimed(self, sighting: Seen | Gone) -> bool:
        """Reports whether an agent of another installation claims an object."""
        if isinstance(sighting, Gone):
            self._registry.strangers.pop(ref_of(sighting.live).key, None)
            return False
        return self._registry.note_claim(sighting.live)

    def _forbidden(self, api: Api, namespace: str) -> None:
        """Handles a kind that may not be listed or watched, in one namespace or in all."""
        if namespace != _ALL:
            self._go_round(api, namespace)
            return
        self._narrow.setdefault(api, {})
        for one in self._registry.places_of(api):
            self._watch_narrowly(api, one)

    def _watch_narrowly(self, api: Api, namespace: str) -> None:
        running = self._narrow[api]
        if not namespace:
            self._go_round(api, namespace)
        elif namespace not in running:
            running[namespace] = self._follow(api, namespace)

    def _allowed(self, api: Api, namespace: str) -> None:
        """Ends the fallbacks of a watch whose list has succeeded."""
        self._blind.discard((api, namespace))
        for task in self._narrow.pop(api, {}).values() if namespace == _ALL else ():
            task.cancel()

    def _go_round(self, api: Api, namespace: str) -> None:
        if (api, namespace) not in self._blind:
            self._blind.add((api, namespace))
            self._tasks.spawn(f"round/{api.kind}", self._look_round(api, namespace))

    async def _look_round(self, api: Api, namespace: str) -> None:
        while (api, namespace) in self._blind:
            for owned in self._registry.objects_of(api, namespace):
                await self._look_at(owned)
            await self._clock.sleep(_ROUND_S)

    async def _look_at(self, owned: Owned) -> None:
        try:
            live = await self._cluster.get(owned.ref)
        except Refused as error:
            owned.seen, owned.verdict = (
                True,
                Verdict(Health.PROGRESSING, error.message, error.reason),
            )
            self._sighted(owned, None)
        except TowlineError:
            return
        else:
            gone = Gone(owned.ref.api, _at(owned.version))
            self._sighted(owned, gone if live is None else Seen(owned.ref.api, live))

    def _sighted(self, owned: Owned, sighting: Sighting | None) -> None:
        service = self._registry.get(owned.service_id)
        if service is None:
            return
        if sighting is not None:
            service.inbox[owned.key] = sighting
        self._tell(service, sighting is not None)

    def _on_hook(self, key: ObjectKey, live: KubeObject) -> None:
        labels = metadata_of(live).get("labels") or {}
        service = self._registry.get(labels.get(SERVICE_LABEL) or "")
        if service is not None and service.gate is not None and key in service.gate.hooks:
            service.hooks_seen[key] = live
            self._tell(service, True)

    def _missing(self, sighting: Relisted) -> None:
        """Handles owned objects that are missing from a fresh list."""
        within = sighting.namespace if sighting.namespace != _ALL else None
        for owned in self._registry.objects_of(sighting.api, within):
            service = self._registry.get(owned.service_id)
            if service is None or owned.key in sighting.keys or owned.version > sighting.version:
                continue
            owned.seen = True
            service.inbox[owned.key] = Gone(sighting.api, _at(sighting.version))
            self._tell(service, True)


def _at(version: int) -> KubeObject:
    """Placeholder for an object that is gone at some resource version."""
    return {"metadata": {"resourceVersion": str(version)}}
