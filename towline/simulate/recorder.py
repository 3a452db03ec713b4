"""Records the churn of a real cluster: changes of workloads that an agent would report."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from core.errors import Unavailable
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.spec.objects import GroupVersionKind, ObjectKey
from core.spec.reports.inventory import ObservedComponent
from syncagent.domain.events import ObjectGone, ObjectSeen, Observation, WatchListed, WatchRefused
from syncagent.domain.objects import KubeObject, ref_of
from syncagent.domain.observed.inventory import child_of
from syncagent.kube.access import ApiServerAccess
from syncagent.kube.client import KubeClient
from syncagent.kube.discovery import ApiDiscovery
from syncagent.kube.watch import KindWatcher
from towline.simulate.churn import MAX_CHANGES, ChurnRecording, RecordedChange

WORKLOADS = (
    GroupVersionKind("", "v1", "Pod"),
    GroupVersionKind("", "v1", "Service"),
    GroupVersionKind("", "v1", "PersistentVolumeClaim"),
    GroupVersionKind("apps", "v1", "Deployment"),
    GroupVersionKind("apps", "v1", "ReplicaSet"),
    GroupVersionKind("apps", "v1", "StatefulSet"),
    GroupVersionKind("apps", "v1", "DaemonSet"),
    GroupVersionKind("batch", "v1", "Job"),
    GroupVersionKind("batch", "v1", "CronJob"),
)
_LISTED_S = 120.0
_MIN_DURATION_S = 0.001


@dataclass(slots=True)
class ChurnRecorder:
    """Records the changes that an agent would report.

    Existing objects at the start are not changes. An object that is deleted and created again
    under its name keeps its number. The recording ends after `MAX_CHANGES` changes.
    """

    clock: Clock
    began: float = 0.0
    listed: set[GroupVersionKind] = field(default_factory=set)
    refused: str = ""
    changes: list[RecordedChange] = field(default_factory=list)
    _numbers: dict[ObjectKey, int] = field(default_factory=dict)
    _components: dict[ObjectKey, ObservedComponent] = field(default_factory=dict)

    def take(self, observation: Observation) -> None:
        """See `syncagent.ports.Sink`."""
        match observation:
            case ObjectSeen(api, live):
                self._on_seen(api, live)
            case ObjectGone(api, live):
                self._on_gone(api, ref_of(live).key)
            case WatchListed(api, _, keys):
                missed = [key for key in self._components if key[:2] == (api.group, api.kind)]
                for key in missed:
                    if key not in keys:
                        self._on_gone(api, key)
                self.listed.add(api)
            case WatchRefused(api, _, reason):
                self.refused = f"cannot list {api}: {reason}"

    def begin(self) -> None:
        """Starts the recording; drops earlier changes."""
        self.began = self.clock.monotonic()
        self.changes.clear()

    def recording(self) -> ChurnRecording:
        """Returns the recording until now."""
        full = len(self.changes) >= MAX_CHANGES
        seconds = self.changes[-1].at if full else self._elapsed()
        return ChurnRecording(
            max(seconds, _MIN_DURATION_S), len(self._components), tuple(self.changes)
        )

    def _on_seen(self, api: GroupVersionKind, live: KubeObject) -> None:
        component = child_of(live)
        key = component.ref.key
        if self._components.get(key) != component:
            self._components[key] = component
            self._record_change(api, key, component)

    def _on_gone(self, api: GroupVersionKind, key: ObjectKey) -> None:
        component = self._components.pop(key, None)
        if component is not None:
            self._record_change(api, key, component, gone=True)

    def _record_change(
        self,
        api: GroupVersionKind,
        key: ObjectKey,
        component: ObservedComponent,
        *,
        gone: bool = False,
    ) -> None:
        number = self._numbers.setdefault(key, len(self._numbers))
        if len(self.changes) < MAX_CHANGES:
            kind = f"{api.group_version}/{api.kind}"
            at = self._elapsed()
            change = RecordedChange(
                at=at, object=number, kind=kind, health=component.health, gone=gone
            )
            self.changes.append(change)

    def _elapsed(self) -> float:
        return round(self.clock.monotonic() - self.began, 3)


@asynccontextmanager
async def recording(access: ApiServerAccess, clock: Clock) -> AsyncGenerator[ChurnRecorder]:
    """Starts a recorder of all workloads of a cluster, after it has listed them once.

    Unavailable: the API server is not reachable, or denies listing.
    """
    recorder, watches = ChurnRecorder(clock), Tasks("record churn")
    client = KubeClient(access, clock)
    discovery = ApiDiscovery(client)
    try:
        for api in WORKLOADS:
            follower = KindWatcher(client, discovery, clock, recorder.take)
            watches.spawn(str(api), follower.run(api, "", ""))
        await _until_listed(recorder, clock)
        recorder.begin()
        yield recorder
    finally:
        await watches.stop()
        await client.close()


async def _until_listed(recorder: ChurnRecorder, clock: Clock) -> None:
    began = clock.monotonic()
    while len(recorder.listed) < len(WORKLOADS):
        if recorder.refused:
            raise Unavailable(recorder.refused)
        if clock.monotonic() - began > _LISTED_S:
            missing = ", ".join(str(kind) for kind in WORKLOADS if kind not in recorder.listed)
            raise Unavailable(f"timed out after {_LISTED_S:.0f} s while listing {missing}")
        await clock.sleep(0.05)
