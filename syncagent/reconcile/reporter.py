"""Reports changes of services to the control plane."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace

import structlog

from core.errors import Unavailable
from core.runtime.clock import Clock
from core.spec.objects import ObjectKey
from core.spec.reports.inventory import ObservedComponent
from core.spec.status import Phase, Problem, SyncStatus
from core.spec.sync import DriftPolicy
from syncagent.domain.observed.inventory import components_of, inventory_change, split_inventory
from syncagent.domain.observed.summary import describe_waiting, summarize
from syncagent.ports import ServiceReports, StateStore
from syncagent.reconcile.gates import describe_wait
from syncagent.reconcile.observe.api_server_monitor import ApiServerMonitor
from syncagent.reconcile.registry import ServiceRegistry, ServiceState

log = structlog.get_logger(__name__)

# Time to collect changes; it grows with the number of changed services.
_WINDOW_S = 0.1
_EACH_S = 0.005
_MAX_WINDOW_S = 1.0
# Minimum time between reports of one service, unless a sync has ended.
_REST_S = 0.2
# Work shorter than this is reported only at its end.
_BRIEF_WORK_S = 0.3
_MAX_PART = 500
# Delay of the retry after the disk failed.
_RETRY_AFTER_S = 5.0
# After the start, a service is not reported for this time until its objects were observed.
_SETTLE_S = 20.0


class Reporter:
    """Collects changes for a short time, then reports each changed service once."""

    def __init__(
        self,
        registry: ServiceRegistry,
        reports: ServiceReports,
        memory: StateStore,
        clock: Clock,
        monitor: ApiServerMonitor,
    ) -> None:
        self._registry = registry
        self._api_server_monitor = monitor
        self._memory = memory
        self._reports = reports
        self._clock = clock
        self._touched: set[str] = set()
        self._wake = asyncio.Event()
        self._reported: dict[str, SyncStatus] = {}
        self._reported_at: dict[str, float] = {}
        self._settle_until = clock.monotonic() + _SETTLE_S

    def mark_changed(self, service_id: str) -> None:
        """Marks a service as changed."""
        self._touched.add(service_id)
        self._wake.set()

    def forget(self, service_id: str) -> None:
        """Drops the last report of a service, so that it is reported again."""
        self._reported.pop(service_id, None)
        self.mark_changed(service_id)

    async def run(self) -> None:
        """Reports changed services until cancelled."""
        backlog = 0
        while True:
            await self._wake.wait()
            await self._clock.sleep(min(_MAX_WINDOW_S, _WINDOW_S + backlog * _EACH_S))
            self._wake.clear()
            backlog = len(self._touched)
            touched, self._touched = self._touched, set()
            for service_id in touched:
                if self._must_wait(service_id):
                    self.mark_changed(service_id)
                else:
                    self.report_now(service_id)
                    await asyncio.sleep(0)

    def _must_wait(self, service_id: str) -> bool:
        """Reports whether the next report of a service must wait."""
        now, service = self._clock.monotonic(), self._registry.get(service_id)
        if (
            service is not None
            and service.busy is not None
            and self._api_server_monitor.problem is None
        ):
            return not self._has_begun(service) and now < service.busy_since + _BRIEF_WORK_S
        return now < self._reported_at.get(service_id, 0.0) + _REST_S

    def report_now(self, service_id: str) -> None:
        """Reports a service now if anything has changed."""
        service = self._registry.get(service_id)
        if service is None:
            self._reported.pop(service_id, None)
            self._reported_at.pop(service_id, None)
            return
        if service.desired.sequence and (
            self._api_server_monitor.problem or not self._is_settling(service)
        ):
            self._report(service)

    def _is_settling(self, service: ServiceState) -> bool:
        """Reports whether the status is about to change."""
        if service.busy is not None and self._has_begun(service):
            return True
        return (
            service.unseen
            and not service.failures
            and self._clock.monotonic() <= self._settle_until
        )

    def _report(self, service: ServiceState) -> None:
        try:
            components = components_of(service.owned, self._registry.tree)
            if self._report_status(service, components) | self._report_inventory(
                service, components
            ):
                self._reported_at[service.id] = self._clock.monotonic()
        except Unavailable as error:
            log.error("report cannot be stored", service=service.id, error=error.message)
            # Parts of an inventory may have been sent: the next one is complete.
            service.reported = None
            self._reported_at[service.id] = self._clock.monotonic() + _RETRY_AFTER_S
            self.mark_changed(service.id)
        except Exception:
            # One service that cannot be reported must not block the others.
            log.exception("service cannot be reported", service=service.id)

    def _report_status(
        self, service: ServiceState, components: dict[ObjectKey, ObservedComponent]
    ) -> bool:
        status = self._current_status(service, components)
        if self._reported.get(service.id) == status:
            return False
        self._reports.status(status)
        self._reported[service.id] = status
        return True

    def _report_inventory(
        self, service: ServiceState, components: dict[ObjectKey, ObservedComponent]
    ) -> bool:
        if self._api_server_monitor.problem or self._registry.gap or service.busy is not None:
            # An unknown or temporary inventory is not reported: the last report stands.
            return False
        change = inventory_change(service.id, service.reported, components)
        if change is None:
            return False
        for part in split_inventory(change, _MAX_PART):
            self._reports.inventory(part)
        service.reported = components
        return True

    def _current_status(
        self, service: ServiceState, components: dict[ObjectKey, ObservedComponent]
    ) -> SyncStatus:
        phase, problems = self._current_phase(service, components)
        if phase == Phase.HEALTHY and not service.stamps.healthy:
            service.stamps = replace(service.stamps, healthy=self._clock.now())
            self._memory.save_stage_times(service.id, service.stamps)
        spec = service.desired.spec
        return SyncStatus(
            service.id,
            service.desired.sequence,
            spec.digest if spec else "",
            phase,
            problems,
            service.stamps,
            service.written,
            service.pruned,
            service.awaiting,
            self._activity(service, components),
            service.planned if service.tried == service.desired.sequence else None,
            _count_drifted(service),
            service.inputs,
        )

    def _current_phase(
        self, service: ServiceState, components: dict[ObjectKey, ObservedComponent]
    ) -> tuple[Phase, tuple[Problem, ...]]:
        phase, problems = summarize(components.values(), service.failures.values())
        if self._api_server_monitor.problem is not None:
            return Phase.FAILED, (self._api_server_monitor.problem,)
        if service.busy is not None:
            return service.busy, problems
        if service.gate is not None and not service.failures:
            return Phase.APPLYING, problems
        if service.awaiting and not service.failures:
            return Phase.AWAITING, problems
        spec = service.desired.spec
        if spec is not None and (spec.dry_run or spec.paused):
            return (Phase.FAILED if service.failures else Phase.APPLIED), problems
        if service.desired != service.current and not service.failures:
            return Phase.FETCHING, problems
        return phase, problems

    def _has_begun(self, service: ServiceState) -> bool:
        """Reports whether work on the newest sequence was reported; its end adds the rest."""
        last_report = self._reported.get(service.id)
        return last_report is not None and last_report.sequence == service.desired.sequence

    def _activity(
        self, service: ServiceState, components: Mapping[ObjectKey, ObservedComponent]
    ) -> str:
        """Describes the present activity for people."""
        if service.gate is not None:
            return describe_wait(service, components, self._registry)
        if service.awaiting:
            return f"{len(service.awaiting)} deletions need confirmation"
        terminating = [owned for owned in service.owned.values() if owned.finalizers]
        if terminating:
            return f"{terminating[0].ref} {terminating[0].verdict.message}"
        if waiting := describe_waiting(components.values()):
            return waiting
        if service.quarantine_reason:
            return f"quarantined; the last good bundle is applied: {service.quarantine_reason}"
        if service.adopted:
            adoptions = ", ".join(f"{count} from {tool}" for tool, count in service.adopted.items())
            return f"adopted {adoptions}"
        return ""


def _count_drifted(service: ServiceState) -> int:
    """Counts the applied objects that others changed or deleted, unless the service ignores it."""
    spec = service.desired.spec
    if spec is None or spec.options.drift is DriftPolicy.IGNORE:
        return 0
    return sum(owned.has_drifted for owned in service.owned.values())
