"""Context of all reconciliation steps."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from fleet.runtime.clock import Clock
from fleet.sealing import SealingKey
from syncagent.domain.objects import ObjectRef
from syncagent.ports import Bundles, Cluster, Fetcher, Identities, Memory, Reports
from syncagent.reconcile.evidence import Evidence
from syncagent.reconcile.notices import Notices
from syncagent.reconcile.registry import Registry, Service


@dataclass(frozen=True, slots=True)
class Tools:
    """The ports, the registry, and callbacks: watch an object, report a service again, retry a
    service.
    `require_cluster` waits until the state of the cluster is known, and raises Unavailable while
    nothing can be decided about it.
    """

    cluster: Cluster
    bundles: Bundles
    fetcher: Fetcher
    memory: Memory
    reports: Reports
    registry: Registry
    evidence: Evidence
    notices: Notices
    clock: Clock
    key: SealingKey
    identities: Identities
    watch: Callable[[ObjectRef], None]
    touch: Callable[[str], None]
    require_cluster: Callable[[], Awaitable[None]]
    urge: Callable[[Service], None]

    def now_ms(self) -> int:
        return int(self.clock.now().timestamp() * 1000)
