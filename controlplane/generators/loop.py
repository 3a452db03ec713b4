"""Reconciles generators when clusters, services, repositories or the generators change.

Reconciles all generators every 60 s too, since changes of pull requests cause no event.
"""

import asyncio

from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.generators.operations.reconciler import GeneratorReconciler
from controlplane.platform.context import CLUSTER, GENERATORS, SERVICE
from controlplane.platform.git_ports import ManifestSource
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import Bus, Store
from core.identity import ClusterId
from core.runtime.clock import Clock
from core.runtime.work_queue import WorkQueue
from core.spec.source import RepositoryState

_SWEEP_SECONDS = 60.0
_BATCH_SECONDS = 0.25
_UNKNOWN = object()


class GeneratorLoop(BackgroundLoop):
    """Drives `GeneratorReconciler`, with one run per generator at a time."""

    def __init__(
        self,
        reconciler: GeneratorReconciler,
        manifests: ManifestSource,
        store: Store,
        bus: Bus,
        clock: Clock,
    ) -> None:
        super().__init__("targets", clock)
        self._reconciler = reconciler
        self._manifests = manifests
        self._store = store
        self._bus = bus
        self._properties: dict[str, object] = {}
        self._sources: dict[str, set[str]] = {}
        self._changed_clusters: set[str] = set()
        self._any_changed = asyncio.Event()
        self._work = WorkQueue("target", reconciler.reconcile, self.tasks, clock)

    async def start(self) -> None:
        self._manifests.on_state(self._on_state)
        self.tasks.forever("wakes", self._follow_events())
        self.tasks.forever("clusters", self._follow_clusters())
        self._every(_SWEEP_SECONDS, "sweep", self._schedule_all)

    def _on_state(self, state: RepositoryState) -> None:
        for key in self._sources.get(state.repository_id, ()):
            self._work.add(key)

    async def _follow_events(self) -> None:
        async for topic, key in self._bus.subscribe(CLUSTER, SERVICE, GENERATORS):
            if topic == CLUSTER:
                self._changed_clusters.add(key)
                self._any_changed.set()
            elif topic == SERVICE:
                for definition_key in self._sources.get(key, ()):
                    self._work.add(definition_key)
            elif key:
                await retry_forever("sources", self._reload_sources, self._clock)
                self._work.add(key)
            else:
                await retry_forever("all", self._schedule_all, self._clock)

    async def _schedule_all(self) -> None:
        await self._reload_sources()
        for key in await self._reconciler.keys():
            self._work.add(key)

    async def _reload_sources(self) -> None:
        """Reads which services and repositories each generator depends on."""
        self._sources = await self._reconciler.sources()

    async def _follow_clusters(self) -> None:
        """Handles clusters that change at about the same time together.

        Otherwise, 1,000 agents that connect at once would cause 1,000 reads of all generators.
        """
        while True:
            await self._any_changed.wait()
            self._any_changed.clear()
            changed, self._changed_clusters = self._changed_clusters, set()
            await retry_forever(
                "clusters", lambda ids=changed: self._reconcile_changed_clusters(ids), self._clock
            )
            await self._clock.sleep(_BATCH_SECONDS)

    async def _reconcile_changed_clusters(self, ids: set[str]) -> None:
        """Reconciles all generators if a change of these clusters matters to selectors."""
        async with self._store.read() as tx:
            clusters = {cluster.id: cluster for cluster in await tx[ClusterStore].by_ids(ids)}
        properties: dict[str, object] = {
            id: _selector_properties(clusters.get(ClusterId(id))) for id in ids
        }
        if any(
            self._properties.get(id, _UNKNOWN) != cluster_properties
            for id, cluster_properties in properties.items()
        ):
            await self._schedule_all()
            # Only now, because a failed attempt is repeated, and must see the change again.
            self._properties |= properties


def _selector_properties(cluster: Cluster | None) -> object:
    """The properties of a cluster that selectors and service names use."""
    if cluster is None:
        return None
    tags = tuple(sorted(cluster.tags.items()))
    identity = (cluster.handle, cluster.name, cluster.project_id, cluster.distribution)
    return (*identity, cluster.mode, cluster.ending_at, tags)
