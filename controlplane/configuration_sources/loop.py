"""Runs the jobs of configuration sources, each in one replica at a time."""

from collections.abc import Callable

from controlplane.configuration_sources.operations.reconciler import SourceReconciler
from controlplane.configuration_sources.operations.sources import RECONCILE
from controlplane.platform.context import CONFIGURATION_SOURCE, OperationContext
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.jobs import JobRunner
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES
from core.runtime.work_queue import WorkQueue
from core.spec.source import RepositoryState

_AT_ONCE = 4


class ConfigurationSourceLoop(BackgroundLoop):
    """Drives `SourceReconciler`; `holder` identifies this replica in leases.

    `delivers` is True if this process handles a repository, and not another replica.
    """

    def __init__(
        self,
        reconciler: SourceReconciler,
        context: OperationContext,
        delivers: Callable[[str], bool],
        holder: str,
    ) -> None:
        super().__init__("configuration-sources", context.clock)
        self._reconciler = reconciler
        self._context = context
        self._delivers = delivers
        work = {RECONCILE: reconciler.run}
        self._jobs = JobRunner(context, self.tasks, holder, work, _AT_ONCE, recurring=True)
        self._commits = WorkQueue(
            "source-commits", reconciler.commits_changed, self.tasks, context.clock
        )

    async def start(self) -> None:
        """Starts in the background, with a run of all sources."""
        self._context.manifests.on_state(self._on_state)
        self.tasks.forever("wakes", self._follow_events())
        self._jobs.start()

    def _on_state(self, state: RepositoryState) -> None:
        if self._delivers(state.repository_id):
            self._commits.add(state.repository_id)

    async def _follow_events(self) -> None:
        schedule = self._reconciler.runs.request_all
        await retry_forever("configuration sources", schedule, self._clock)
        self._jobs.wake()
        async for topic, _ in self._context.bus.subscribe(CONFIGURATION_SOURCE, LOST_WAKES):
            if topic == LOST_WAKES:
                await retry_forever("configuration sources", schedule, self._clock)
            self._jobs.wake()
