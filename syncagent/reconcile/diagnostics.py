"""Diagnostics for unhealthy objects: the last lines of a crashed container's log, and warning
events.
Requests are rare: a log once for each crash, events some seconds after an object seemed stuck.
Secrets of the service are masked.
"""

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.health import HealthState
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.reports.inventory import ObservedComponent
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.domain.observed.pods import Crash
from syncagent.ports import KubeApi
from syncagent.reconcile.masking import Masking
from syncagent.reconcile.registry import RunningHook, ServiceRegistry, ServiceState

_TAIL = 600
_AT_ONCE = 2
_CHECK_AFTER_S = (1.0, 5.0, 20.0, 60.0)
# A roll-out usually ends within this time, and its status says more than events.
_FIRST_CHECK_S = 4.0
_MAX_SCHEDULED = 50
# Their controllers report the reason of a delay only in events.
_SILENT = {
    ("", "PersistentVolumeClaim"),
    ("", "Service"),
    ("apps", "StatefulSet"),
    ("apps", "DaemonSet"),
    ("batch", "Job"),
}


class WaitingObject(Protocol):
    """An object that waits, with the messages of events about it."""

    @property
    def ref(self) -> ObjectRef: ...

    @property
    def uid(self) -> str: ...

    diagnosis: str


class Diagnostics:
    """Queries the cluster, a few requests at a time; `mark_changed` gets the id of each service
    with news.
    """

    def __init__(
        self,
        cluster: KubeApi,
        registry: ServiceRegistry,
        masking: Masking,
        tasks: Tasks,
        clock: Clock,
        mark_changed: Callable[[str], None],
    ) -> None:
        self._cluster = cluster
        self._registry = registry
        self._masking = masking
        self._tasks = tasks
        self._clock = clock
        self._mark_changed = mark_changed
        self._requests = asyncio.Semaphore(_AT_ONCE)
        self._crashes: dict[str, tuple[int, str]] = {}
        self._scheduled: set[ObjectKey] = set()

    def with_log_tail(self, child: ObservedComponent, crash: Crash | None) -> ObservedComponent:
        """Adds the end of its log to a crashed pod, and fetches the log of a new crash."""
        if crash is None or child.health != HealthState.FAILED:
            self._crashes.pop(child.uid, None)
            return child
        count, tail = self._crashes.get(child.uid, (-1, ""))
        service = self._registry.service_of_descendant(child.owner_uid)
        if count != crash.count and service is not None:
            self._crashes[child.uid] = (crash.count, tail)
            self._tasks.spawn(f"log/{child.ref.name}", self._fetch_crash_log(service, child, crash))
        return _with_tail(child, tail)

    def drop(self, uid: str) -> None:
        """Drops a pod that is gone."""
        self._crashes.pop(uid, None)

    def schedule_event_check(self, service: ServiceState, owned: OwnedObject) -> None:
        """Schedules a request for the events of an object that may be stuck."""
        if owned.verdict.health != HealthState.PROGRESSING:
            return
        silent = (owned.ref.group, owned.ref.kind) in _SILENT
        if silent or len(self._scheduled) < _MAX_SCHEDULED:
            self._schedule_check(
                service,
                owned,
                lambda: (
                    owned.verdict.health == HealthState.PROGRESSING
                    and service.owned.get(owned.key) is owned
                ),
                0.0 if silent else _FIRST_CHECK_S,
            )

    def schedule_hook_check(self, service: ServiceState, hook: RunningHook) -> None:
        """Schedules a request for the events of a running hook."""
        self._schedule_check(service, hook, lambda: self._registry.hook(hook.ref.key) is hook)

    async def failure_log(self, service: ServiceState, ref: ObjectRef, uid: str) -> str:
        """Returns the end of the log of a Pod, or of a Job's failed Pod; empty if it cannot be
        read.
        """
        if ref.kind == "Pod":
            return await self._log_tail(service, ref, "", previous=False)
        for child in self._registry.tree.descendants_of(uid):
            if child.ref.kind == "Pod" and child.health == HealthState.FAILED:
                return await self._log_tail(service, child.ref, "", previous=False)
        return ""

    async def _fetch_crash_log(
        self, service: ServiceState, child: ObservedComponent, crash: Crash
    ) -> None:
        async with self._requests:
            tail = await self._log_tail(
                service, child.ref, crash.container, previous=crash.previous
            )
        current = self._registry.tree.get(child.uid)
        if not tail or current is None or child.uid not in self._crashes:
            return
        self._crashes[child.uid] = (crash.count, tail)
        plain = replace(current, message=child.message)
        self._registry.tree.put(_with_tail(plain, tail))
        self._notify_service(child.uid)

    def _schedule_check(
        self,
        service: ServiceState,
        waiting: WaitingObject,
        is_still_waiting: Callable[[], bool],
        delay_s: float = 0.0,
    ) -> None:
        if waiting.ref.key not in self._scheduled:
            self._scheduled.add(waiting.ref.key)
            check = self._check_events(service, waiting, is_still_waiting, delay_s)
            self._tasks.spawn(f"events/{waiting.ref.name}", check)

    async def _check_events(
        self,
        service: ServiceState,
        waiting: WaitingObject,
        is_still_waiting: Callable[[], bool],
        delay_s: float,
    ) -> None:
        await self._clock.sleep(delay_s)
        for wait in _CHECK_AFTER_S:
            await self._clock.sleep(wait)
            if not is_still_waiting():
                break
            async with self._requests:
                text = await self._newest_warning(service, waiting)
            if text and text != waiting.diagnosis:
                waiting.diagnosis = text
                self._mark_changed(service.id)
        self._scheduled.discard(waiting.ref.key)

    async def _newest_warning(self, service: ServiceState, waiting: WaitingObject) -> str:
        """Returns the newest warning about an object's first waiting pod, or about itself."""
        for child in self._registry.tree.descendants_of(waiting.uid):
            if child.ref.kind != "Pod" or child.health == HealthState.HEALTHY:
                continue
            text = (
                child.message
                if child.health == HealthState.FAILED
                else await self._event_message(service, child.ref, child.uid)
            )
            return f"{child.ref.name}: {text}" if text else ""
        return await self._event_message(service, waiting.ref, waiting.uid)

    async def _event_message(self, service: ServiceState, ref: ObjectRef, uid: str) -> str:
        try:
            messages = await self._cluster.warnings(ref, uid)
        except TowlineError:
            return ""
        return (await self._masking.masked(service, messages[0]))[:_TAIL] if messages else ""

    async def _log_tail(
        self, service: ServiceState, pod: ObjectRef, container: str, *, previous: bool
    ) -> str:
        try:
            text = await self._cluster.log_tail(pod, container, previous=previous)
        except TowlineError:
            return ""
        text = await self._masking.masked(service, text)
        lines = (line.strip() for line in text.splitlines())
        return " | ".join(line for line in lines if line)[-_TAIL:]

    def _notify_service(self, uid: str) -> None:
        service = self._registry.service_of_descendant(uid)
        if service is not None:
            self._mark_changed(service.id)


def _with_tail(child: ObservedComponent, tail: str) -> ObservedComponent:
    return replace(child, message=f"{child.message}; its log ends: {tail}") if tail else child
