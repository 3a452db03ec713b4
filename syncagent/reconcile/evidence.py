"""What else explains why something is not well: the last lines of a crashed container's log, and
the events that warn of an object.

Asked for rarely: a log once a crash, events some seconds after an object was seen to be stuck. None
of it goes on with a secret of its service in it.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace

from fleet.errors import TowlineError
from fleet.runtime.clock import Clock
from fleet.runtime.tasks import Tasks
from syncagent.domain.health import Health
from syncagent.domain.inventory import Component, Owned
from syncagent.domain.objects import ObjectKey, ObjectRef
from syncagent.domain.pods import Crash
from syncagent.ports import Cluster
from syncagent.reconcile.masking import Masking
from syncagent.reconcile.registry import Registry, Service

_TAIL = 600
_AT_ONCE = 2
_ASK_AFTER_S = (1.0, 5.0, 20.0, 60.0)
# Their controllers tell why nothing happens by events alone.
_SILENT = {
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
}


class Evidence:
    """Asks the cluster, a few questions at a time; `touch` is told of services that it explains."""

    def __init__(
        self,
        cluster: Cluster,
        registry: Registry,
        masking: Masking,
        tasks: Tasks,
        clock: Clock,
        touch: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._masking = masking
        self._tasks = tasks
        self._clock = clock
        self._touch = touch
        self._turn = asyncio.Semaphore(_AT_ONCE)
        self._crashes: dict[str, tuple[int, str]] = {}
        self._asked: set[ObjectKey] = set()

    def explained(self, child: Component, crash: Crash | None) -> Component:
        """A pod with the end of its log, which is fetched if this crash is new."""
        if crash is None or child.health != Health.FAILED:
            self._crashes.pop(child.uid, None)
            return child
        count, tail = self._crashes.get(child.uid, (-1, ""))
        service = self._registry.service_above(child.owner_uid)
        if count != crash.count and service is not None:
            self._crashes[child.uid] = (crash.count, tail)
            self._tasks.spawn(f"log/{child.ref.name}", self._fetch(service, child, crash))
        return _with_tail(child, tail)

    def drop(self, uid: str) -> None:
        """A pod has gone."""
        self._crashes.pop(uid, None)

    def suspect(self, service: Service, one: Owned) -> None:
        """An owned object was seen: if it may be stuck, its events are asked for in a while."""
        silent = (one.ref.group, one.ref.kind) in _SILENT
        if silent and one.verdict.health == Health.PROGRESSING and one.key not in self._asked:
            self._asked.add(one.key)
            self._tasks.spawn(f"events/{one.ref.name}", self._ask(service, one))

    async def last_words(self, service: Service, ref: ObjectRef, uid: str) -> str:
        """How the log of a Pod, or of a Job's failed Pod, ends; empty if that cannot be told."""
        if ref.kind == "Pod":
            return await self._tail(service, ref, "", previous=False)
        for child in self._registry.tree.beneath(uid):
            if child.ref.kind == "Pod" and child.health == Health.FAILED:
                return await self._tail(service, child.ref, "", previous=False)
        return ""

    async def _fetch(self, service: Service, child: Component, crash: Crash) -> None:
        async with self._turn:
            tail = await self._tail(service, child.ref, crash.container, previous=crash.previous)
        now = self._registry.tree.get(child.uid)
        if not tail or now is None or child.uid not in self._crashes:
            return
        self._crashes[child.uid] = (crash.count, tail)
        plain = replace(now, message=child.message)
        self._registry.tree.put(_with_tail(plain, tail))
        self._tell(child.uid)

    async def _ask(self, service: Service, one: Owned) -> None:
        for wait in _ASK_AFTER_S:
            await self._clock.sleep(wait)
            if one.verdict.health != Health.PROGRESSING or service.owned.get(one.key) is not one:
                break
            async with self._turn:
                said = await self._warnings(service, one)
            if said and said != one.evidence:
                one.evidence = said
                self._touch(service.id)
        self._asked.discard(one.key)

    async def _warnings(self, service: Service, one: Owned) -> str:
        try:
            said = await self._cluster.warnings(one.ref, one.uid)
        except TowlineError:
            return ""
        return (await self._masking.masked(service, said[0]))[:_TAIL] if said else ""

    async def _tail(
        self, service: Service, pod: ObjectRef, container: str, *, previous: bool
    ) -> str:
        try:
            text = await self._cluster.log_tail(pod, container, previous=previous)
        except TowlineError:
            return ""
        text = await self._masking.masked(service, text)
        lines = (line.strip() for line in text.splitlines())
        return " | ".join(line for line in lines if line)[-_TAIL:]

    def _tell(self, uid: str) -> None:
        service = self._registry.service_above(uid)
        if service is not None:
            self._touch(service.id)


def _with_tail(child: Component, tail: str) -> Component:
    return replace(child, message=f"{child.message}; its log ends: {tail}") if tail else child
