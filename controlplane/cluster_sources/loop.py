"""Runs the jobs of cluster sources, each in one replica at a time."""

from controlplane.cluster_sources.operations.clean_up import CLEAN_UP, DeliveryCleanUp
from controlplane.cluster_sources.operations.reconciler import ClusterSourceReconciler
from controlplane.cluster_sources.operations.sources import RECONCILE
from controlplane.platform.context import CLUSTER_SOURCE, OperationContext
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.jobs import JobRunner
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES

_AT_ONCE = 4


class ClusterSourceLoop(BackgroundLoop):
    """Drives `ClusterSourceReconciler`; `holder` identifies this replica in leases."""

    def __init__(
        self,
        reconciler: ClusterSourceReconciler,
        clean_up: DeliveryCleanUp,
        context: OperationContext,
        holder: str,
    ) -> None:
        super().__init__("cluster-sources", context.clock)
        self._reconciler = reconciler
        self._context = context
        work = {RECONCILE: reconciler.run}
        self._jobs = JobRunner(context, self.tasks, holder, work, _AT_ONCE, recurring=True)
        self._clean_ups = JobRunner(context, self.tasks, holder, {CLEAN_UP: clean_up.run}, 1)

    async def start(self) -> None:
        """Starts in the background, with a run of all sources."""
        self.tasks.forever("wakes", self._follow_events())
        self._jobs.start()
        self._clean_ups.start()

    async def _follow_events(self) -> None:
        schedule = self._reconciler.runs.request_all
        await retry_forever("cluster sources", schedule, self._clock)
        self._jobs.wake()
        async for topic, _ in self._context.bus.subscribe(CLUSTER_SOURCE, LOST_WAKES):
            if topic == LOST_WAKES:
                await retry_forever("cluster sources", schedule, self._clock)
            self._jobs.wake()
            self._clean_ups.wake()
