"""Context of all reconciliation steps."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from core.runtime.clock import Clock
from core.sealing import SealingKey
from core.spec.fences import ServiceFence
from core.spec.objects import ObjectRef
from syncagent.ports import (
    BundleFetcher,
    BundleStore,
    DecryptionKeys,
    InputChecks,
    ObjectApi,
    ServiceReports,
    StateStore,
)
from syncagent.reconcile.diagnostics import Diagnostics
from syncagent.reconcile.event_recorder import EventRecorder
from syncagent.reconcile.registry import ServiceRegistry, ServiceState


@dataclass(frozen=True, slots=True)
class ReconcileContext:
    """The ports, the registry, and callbacks: watch an object, report a service again, retry a
    service.
    `require_cluster` waits until the state of the cluster is known, and raises Unavailable while
    nothing can be decided about it. `cluster` and `fence` are those of the service at hand.
    """

    cluster: ObjectApi
    fence: ServiceFence | None
    inputs: InputChecks
    bundles: BundleStore
    fetcher: BundleFetcher
    memory: StateStore
    reports: ServiceReports
    registry: ServiceRegistry
    diagnostics: Diagnostics
    event_recorder: EventRecorder
    clock: Clock
    key: SealingKey
    identities: DecryptionKeys
    watch: Callable[[ObjectRef], None]
    mark_changed: Callable[[str], None]
    require_cluster: Callable[[], Awaitable[None]]
    retry_now: Callable[[ServiceState], None]

    def within(self, cluster: ObjectApi, fence: ServiceFence | None) -> "ReconcileContext":
        """Returns the context of a service: its cluster and its fence."""
        if cluster is self.cluster and fence == self.fence:
            return self
        return replace(self, cluster=cluster, fence=fence)

    def now_ms(self) -> int:
        return int(self.clock.now().timestamp() * 1000)
