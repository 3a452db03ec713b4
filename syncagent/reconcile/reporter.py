"""Says upwards how services are: when something has changed, and then only that."""

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

# How long changes are gathered; the more services change at once, the longer.
_WINDOW_S = 0.1
_EACH_S = 0.005
_WIDEST_WINDOW_S = 1.0
# After a report of a service its next one waits at least this long, unless a walk has ended.
_REST_S = 0.3
# Work that takes less than this is told by its end alone.
_BRIEF_S = 0.3
_PART = 500
# A report that the disk refused is tried again so much later.
_AGAIN_S = 5.0
# So long after the start a service is not spoken of before its objects have been looked at.
_PATIENCE_S = 20.0


class Reporter:
    """Gathers changes for a short while, then reports each touched service once."""

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
        """Something about a service has changed."""
        self._touched.add(service_id)
        self._wake.set()

    def forget(self, service_id: str) -> None:
        """What was said of a service is not known any more: say it anew."""
        self._said.pop(service_id, None)
        self.touch(service_id)

    async def run(self) -> None:
        """Report what was touched, for ever."""
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
        """Whether it is too early to speak of a service again, or of work that may soon be done."""
        now, service = self._clock.monotonic(), self._registry.get(service_id)
        if service is not None and service.busy is not None and self._reach.problem is None:
            return not self._has_begun(service) and now < service.busy_since + _BRIEF_S
        return now < self._said_at.get(service_id, 0.0) + _REST_S

    def say(self, service_id: str) -> None:
        """Report a service now, if there is anything new."""
        service = self._registry.get(service_id)
        if service is None:
            self._said.pop(service_id, None)
            self._said_at.pop(service_id, None)
            return
        if service.desired.sequence and (self._reach.problem or not self._waits(service)):
            self._tell(service)

    def _waits(self, service: Service) -> bool:
        """Whether more will be known in a moment."""
        if service.busy is not None and self._has_begun(service):
            return True
        return service.unseen and not service.failures and not self._impatient()

    def _tell(self, service: Service) -> None:
        try:
            components = components_of(service.owned, self._registry.tree)
            if self._status(service, components) | self._inventory(service, components):
                self._said_at[service.id] = self._clock.monotonic()
        except Unavailable as error:
            log.error("report cannot be kept", service=service.id, error=error.message)
            # Parts of an inventory may be out already: the next one is whole.
            service.reported = None
            self._said_at[service.id] = self._clock.monotonic() + _AGAIN_S
            self.touch(service.id)
        except Exception:
            # One service that cannot be spoken of must not silence the others.
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
            # What is not known, or will soon be otherwise, is not told: the last word stands.
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
        """Whether it has been said that the newest word is being worked on; the end says more."""
        said = self._said.get(service.id)
        return said is not None and said.sequence == service.desired.sequence

    def _impatient(self) -> bool:
        return self._clock.monotonic() > self._patient_until


def _message(service: Service, components: Mapping[ObjectKey, Component]) -> str:
    """What is going on, for people."""
    if service.gate is not None:
        return saying(service)
    if service.awaiting:
        return f"a person must agree to {len(service.awaiting)} deletions"
    held = [one for one in service.owned.values() if one.finalizers]
    if held:
        return f"{held[0].ref} {held[0].verdict.message}"
    for one in components.values():
        if one.health == Health.PROGRESSING and one.reason and not one.owner_uid:
            return f"waiting for {one.ref}: {one.message}"
    if service.held:
        return f"held at the last good bundle: {service.held}"
    if service.adopted:
        taken = ", ".join(f"{count} from {tool}" for tool, count in service.adopted.items())
        return f"adopted {taken}"
    return ""
