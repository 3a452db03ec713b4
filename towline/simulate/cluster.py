"""A simulated cluster: every desired object exists at once, and is healthy."""

import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import count

from core.errors import TowlineError
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.desired import Desired
from core.spec.facts import ClusterFacts
from core.spec.health import HealthState
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.status import Phase, StageTimes, SyncStatus
from core.spec.sync import ObjectSelection
from syncagent.domain.objects import ref_of
from syncagent.link.reports import OutboxReports
from syncagent.ports import BundleFetcher
from towline.simulate.churn import RecordedChange

_RETRY_S = 0.5
_FACTS = ClusterFacts("v1.36.0", "eks", 12, 96_000, 384 << 30, 1_320, ("v1", "apps/v1", "batch/v1"))


@dataclass(slots=True)
class AppliedState:
    """An applied desired state of a service; times are monotonic seconds, 0.0 if not yet.

    `reported_at`: acknowledgement of its last report. `names`: names of its objects. A worker sends
    the fields in this order.
    """

    service_id: str
    sequence: int
    digest: str
    settled: float
    reported_at: float = 0.0
    names: tuple[str, ...] = ()


class SimulatedCluster:
    """Implements `syncagent.ports.Reconciler`: fetches real bundles, and reports as an agent does.

    Also works without services: `drift` reports a change of an invented object.
    """

    def __init__(self, fetcher: BundleFetcher, reports: OutboxReports, clock: Clock) -> None:
        self._fetcher = fetcher
        self._reports = reports
        self._clock = clock
        self._desired: dict[str, Desired] = {}
        self._unreported: list[AppliedState] = []
        self._numbers = count(1)
        self.settled: list[AppliedState] = []
        self.links = 0
        self.changes = 0
        self.tasks = Tasks("cluster")

    async def facts(self) -> ClusterFacts:
        """Facts that this cluster reports."""
        return _FACTS

    def desire(self, desired: Desired) -> None:
        """See `Reconciler.desire`."""
        previous = self._desired.get(desired.service_id)
        if previous is None or desired.sequence > previous.sequence:
            self._desired[desired.service_id] = desired
            self.tasks.spawn("settle", self._apply(desired))

    def stored_services(self) -> list[tuple[str, int]]:
        """See `Reconciler.held`."""
        return [(service.service_id, service.sequence) for service in self._desired.values()]

    def linked(self) -> None:
        """See `Reconciler.linked`."""
        self.links += 1

    def report_all(self) -> None:
        """See `Reconciler.report_all`."""
        for desired in self._desired.values():
            self.tasks.spawn("settle", self._apply(desired))

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        """See `Reconciler.sync_now`."""
        self._reports.done(CommandAnswer(command_id, CommandOutcome.SUCCEEDED))

    def terminate(self, command_id: str, service_id: str) -> None:
        """See `Reconciler.terminate`."""
        self._reports.done(CommandAnswer(command_id, CommandOutcome.SUCCEEDED))

    def refuse(self, command_id: str, reason: str) -> None:
        """See `Reconciler.refuse`."""
        self._reports.done(CommandAnswer(command_id, CommandOutcome.REFUSED, reason))

    def drift(self) -> str:
        """Reports drift of a new object; returns the name of the object."""
        name = f"object-{next(self._numbers)}"
        service_id = next(iter(self._desired), "00000000-0000-7000-8000-000000000000")
        ref = ObjectRef("", "v1", "ConfigMap", "simulated", name)
        drift = DriftFound(service_id, ref, "somebody", ("/data/x",), deleted=False, healed=True)
        self._reports.drift(drift)
        return name

    def change(self, change: RecordedChange) -> None:
        """Reports a change of an object of the first service, as the agent does."""
        service_id = next(iter(self._desired), None)
        if service_id is None:
            return
        api, _, kind = change.kind.rpartition("/")
        group, _, version = api.rpartition("/")
        name = f"recorded-{change.object}"
        ref = ObjectRef(group, version, kind, "simulated", name)
        if change.gone:
            inventory = InventoryChange(service_id, False, (), (ref,))
        else:
            inventory = InventoryChange(service_id, False, (_component(ref, change.health),), ())
        self._reports.inventory(inventory)
        self.changes += 1

    def mark_acknowledged(self) -> None:
        """Marks all reported states as acknowledged."""
        now = self._clock.monotonic()
        for change in self._unreported:
            change.reported_at = now
        self.settled += self._unreported
        self._unreported = []

    async def _apply(self, desired: Desired) -> None:
        """Applies a desired state, unless a newer one arrives."""
        received = self._clock.now()
        if desired.spec is None:
            del self._desired[desired.service_id]
            return self._report_status(desired, Phase.REMOVED, StageTimes(received), ())
        data = await self._fetch_bundle(desired)
        if data is not None:
            now = self._clock.now()
            objects = tuple(_objects(data))
            present = tuple(_component(resource) for resource in objects)
            self._reports.inventory(InventoryChange(desired.service_id, True, present, ()))
            stamps = StageTimes(received, now, now, now)
            self._report_status(
                desired, Phase.HEALTHY, stamps, tuple(resource.name for resource in objects)
            )

    async def _fetch_bundle(self, desired: Desired) -> bytes | None:
        assert desired.spec is not None
        while self._desired.get(desired.service_id) is desired:
            try:
                return await self._fetcher.fetch(desired.spec.digest, desired.spec.size)
            except TowlineError:
                await self._clock.sleep(_RETRY_S)
        return None

    def _report_status(
        self, desired: Desired, phase: Phase, stamps: StageTimes, names: tuple[str, ...]
    ) -> None:
        digest = desired.spec.digest if desired.spec else ""
        status = SyncStatus(desired.service_id, desired.sequence, digest, phase, (), stamps)
        self._reports.status(replace(status, written=len(names)))
        now = self._clock.monotonic()
        self._unreported.append(
            AppliedState(desired.service_id, desired.sequence, digest, now, names=names)
        )


def _objects(data: bytes) -> Iterator[ObjectRef]:
    return (ref_of(json.loads(line)) for line in data.splitlines())


def _component(ref: ObjectRef, health: HealthState = HealthState.HEALTHY) -> ObservedComponent:
    return ObservedComponent(ref, f"{ref.kind}/{ref.name}"[:64], "", health, "", "", True, ())
