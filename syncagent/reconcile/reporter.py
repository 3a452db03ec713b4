"""Reports changes of services to the control plane."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from fleet.errors import Unavailable
from fleet.runtime.clock import Clock
from syncagent.domain.health import Health
from syncagent.domain.inventory import Component, components_of, difference, split
from syncagent.domain.objects import ObjectKey
from syncagent.domain.services import Phase, Problem, Status
from syncagent.domain.summary import summarize
from syncagent.ports import Memory, Reports
from syncagent.reconcile.gates import saying
from syncagent.reconcile.reach import Reach
from syncagent.reconcile.registry import Registry, Service

log = structlog.get_logger(__name__)

# Time to collect changes; it grows with the number of changed services.
_WINDOW_S = 0.1
_EACH_S = 0.005
_WIDEST_WINDOW_S = 1.0
# Minimum time between reports of one service, unless a sync has ended.
_REST_S = 0.3
# Work shorter than this is reported only at its end.
_BRIEF_S = 0.3
_PART = 500
# Delay of the retry after the disk failed.
_AGAIN_S = 5.0
# After the start, a service is not reported for this time until its objects were observed.
_PATIENCE_S = 20.0


class Reporter:
    """Collects changes for a short time, then reports each changed service once."""

    def __init__(
        self, registry: Registry, reports: Reports, memory: Memory, clock: Clock, reach: Reach
    ) -> None:
        self._registry = registry
        self._reach = reach
        self._memory = memory
        self._reports = reports
        self._clock = clock
        self._touched: set[str] = set()
        self._wake = asyncio.Event()
        self._said: dict[str, Status] = {}
        self._said_at: dict[str, float] = {}
        self._patient_until = clock.monotonic() + _PATIENCE_S

    def touch(self, service_id: str) -> None:
        """Marks a service as changed."""
        self._touched.add(service_id)
        self._wake.set()

    def forget(self, service_id: str) -> None:
        """Drops the last report of a service, so that it is reported again."""
        self._said.pop(service_id, None)
        self.touch(service_id)

    async def run(self) -> None:
        """Reports changed services until cancelled."""
        pace = 0
        while True:
            await self._wake.wait()
            await self._clock.sleep(min(_WIDEST_WINDOW_S, _WINDOW_S + pace * _EACH_S))
            self._wake.clear()
            pace = len(self._touched)
            touched, self._touched = self._touched, set()
            for service_id in touched:
                if self._rests(service_id):
                    self.touch(service_id)
                else:
                    self.say(service_id)
                    await asyncio.sleep(0)

    def _rests(self, service_id: str) -> bool:
        """Reports whether the next report of a service must wait."""
        now, service = self._clock.monotonic(), self._registry.get(service_id)
        if service is not None and service.busy is not None and self._reach.problem is None:
            return not self._has_begun(service) and now < service.busy_since + _BRIEF_S
        return now < self._said_at.get(service_id, 0.0) + _REST_S

    def say(self, service_id: str) -> None:
        """Reports a service now if anything has changed."""
        service = self._registry.get(service_id)
        if service is None:
            self._said.pop(service_id, None)
            self._said_at.pop(service_id, None)
            return
        if service.desired.sequence and (self._reach.problem or not self._waits(service)):
            self._tell(service)

    def _waits(self, service: Service) -> bool:
        """Reports whether the status is about to change."""
        if service.busy is not None and self._has_begun(service):
            return True
        return service.unseen and not service.failures and not self._impatient()

    def _tell(self, service: Service) -> None:
        try:
            components = components_of(service.owned, self._registry.tree)
            if self._status(service, components) | self._inventory(service, components):
                self._said_at[service.id] = self._clock.monotonic()
        except Unavailable as error:
            log.error("report cannot be stored", service=service.id, error=error.message)
            # Parts of an inventory may have been sent: the next one is complete.
            service.reported = None
            self._said_at[service.id] = self._clock.monotonic() + _AGAIN_S
            self.touch(service.id)
        except Exception:
            # One service that cannot be reported must not block the others.
            log.exception("service cannot be reported", service=service.id)

    def _status(self, service: Service, components: dict[ObjectKey, Component]) -> bool:
        status = self._current(service, components)
        if self._said.get(service.id) == status:
            return False
        self._reports.status(status)
        self._said[service.id] = status
        return True

    def _inventory(self, service: Service, components: dict[ObjectKey, Component]) -> bool:
        if self._reach.problem or self._registry.gap or service.busy is not None:
            # An unknown or temporary inventory is not reported: the last report stands.
            return False
        change = difference(service.id, service.reported, components)
        if change is None:
            return False
        for part in split(change, _PART):
            self._reports.inventory(part)
        service.reported = components
        return True

    def _current(self, service: Service, components: dict[ObjectKey, Component]) -> Status:
        phase, problems = self._phase(service, components)
        if phase == Phase.HEALTHY and not service.stamps.healthy:
            now = int(self._clock.now().timestamp() * 1000)
            service.stamps = replace(service.stamps, healthy=now)
            self._memory.stamp(service.id, service.stamps)
        spec = service.desired.spec
        return Status(
            service.id,
            service.desired.sequence,
            spec.digest if spec else "",
            phase,
            problems,
            service.stamps,
            service.written,
            service.pruned,
            service.awaiting,
            _message(service, components),
            service.planned if service.tried == service.desired.sequence else None,
        )

    def _phase(
        self, service: Service, components: dict[ObjectKey, Component]
    ) -> tuple[Phase, tuple[Problem, ...]]:
        phase, problems = summarize(components.values(), service.failures.values())
        if self._reach.problem is not None:
            return Phase.FAILED, (self._reach.problem,)
        if service.busy is not None:
            return service.busy, problems
        if service.gate is not None and not service.failures:
            return Phase.APPLYING, problems
        if service.awaiting and not service.failures:
            return Phase.AWAITING, problems
        spec = service.desired.spec
        if spec is not None and (spec.options.dry_run or spec.options.paused):
            return (Phase.FAILED if service.failures else Phase.APPLIED), problems
        if service.desired != service.current and not service.failures:
            return Phase.FETCHING, problems
        return phase, problems

    def _has_begun(self, service: Service) -> bool:
        """Reports whether work on the newest sequence was reported; its end adds the rest."""
        said = self._said.get(service.id)
        return said is not None and said.sequence == service.desired.sequence

    def _impatient(self) -> bool:
        return self._clock.monotonic() > self._patient_until


def _message(service: Service, components: Mapping[ObjectKey, Component]) -> str:
    """Describes the present activity for people."""
    if service.gate is not None:
        return saying(service)
    if service.awaiting:
        return f"{len(service.awaiting)} deletions need confirmation"
    held = [owned for owned in service.owned.values() if owned.finalizers]
    if held:
        return f"{held[0].ref} {held[0].verdict.message}"
    for component in components.values():
        if component.health == Health.PROGRESSING and component.reason and not component.owner_uid:
            return f"waiting for {component.ref}: {component.message}"
    if service.held:
        return f"quarantined; the last good bundle is applied: {service.held}"
    if service.adopted:
        taken = ", ".join(f"{count} from {tool}" for tool, count in service.adopted.items())
        return f"adopted {taken}"
    return ""
