"""Renders services when a repository or a service changes, and every 60 s."""

from collections.abc import Callable
from functools import partial

from controlplane.delivery.operations.pinned_services import PinnedServices
from controlplane.delivery.operations.render_reconciler import RenderReconciler
from controlplane.platform.context import RENDER_SERVICES, OperationContext
from controlplane.platform.loops.background import BackgroundLoop
from controlplane.platform.loops.retry import retry_forever
from controlplane.platform.ports import LOST_WAKES
from controlplane.repositories.operations import RepositoryOperations
from controlplane.repositories.ports import RepositoryStore
from core.errors import TowlineError
from core.runtime.work_queue import WorkQueue
from core.spec.source import RepositoryState

_SWEEP_SECONDS = 60.0


class RenderLoop(BackgroundLoop):
    """Drives `RenderReconciler`, with one run per repository at a time.

    `delivers` is True if this process handles the repository, and not another replica. If two
    replicas do, the rows show the second one that nothing is left to do.
    """

    def __init__(
        self,
        delivery: RenderReconciler,
        pinned: PinnedServices,
        repositories: RepositoryOperations,
        context: OperationContext,
        delivers: Callable[[str], bool],
    ) -> None:
        super().__init__("delivery", context.clock)
        self._delivers = delivers
        self._delivery = delivery
        self._repositories = repositories
        self._context = context
        self._states: dict[str, RepositoryState] = {}
        self._requested: dict[str, set[str]] = {}
        self._work = WorkQueue("deliver", self._render_requested, self.tasks, context.clock)
        # Apart from deliveries, which must not wait for a count.
        self._counts = WorkQueue("count", pinned.update, self.tasks, context.clock)

    async def start(self) -> None:
        """Follows all repositories, and renders changes made meanwhile."""
        self._context.manifests.on_state(self._on_state)
        await self._repositories.follow_all()
        self.tasks.forever("wakes", self._follow_events())
        self._every(_SWEEP_SECONDS, "sweep", self._schedule_all, delay=_SWEEP_SECONDS)
        polls = self._repositories.store_polls
        self._every(_SWEEP_SECONDS, "polls", polls, delay=_SWEEP_SECONDS)

    def _on_state(self, state: RepositoryState) -> None:
        self._states[state.repository_id] = state
        self._request_render(state.repository_id)

    def _request_render(self, repository_id: str, service_id: str = "") -> None:
        """Schedules one service, or all of the repository without an id."""
        self._requested.setdefault(repository_id, set()).add(service_id)
        self._work.add(repository_id)

    async def _render_requested(self, repository_id: str) -> None:
        state = self._states.pop(repository_id, None)
        requested = self._requested.pop(repository_id, {""})
        if not self._delivers(repository_id):
            return
        try:
            await self._delivery.deliver(repository_id, None if "" in requested else requested)
            if state is not None:
                await self._repositories.store_state(state)
            for service_id in {""} if "" in requested else requested:
                self._counts.add(f"{repository_id}/{service_id}")
        except TowlineError:
            self._requested.setdefault(repository_id, set()).update(requested)
            if state is not None:
                # The git cache reports each state once, and may have reported a newer one.
                self._states.setdefault(repository_id, state)
            raise

    async def _follow_events(self) -> None:
        async for topic, key in self._context.bus.subscribe(RENDER_SERVICES, LOST_WAKES):
            if topic == LOST_WAKES:
                await retry_forever("sweep", self._schedule_all, self._clock)
                continue
            await retry_forever("follow", partial(self._follow_refs, key), self._clock)

    async def _follow_refs(self, key: str) -> None:
        repository_id, _, service_id = key.partition("/")
        if service_id:
            await self._repositories.ensure_followed(repository_id, service_id)
        else:
            await self._repositories.update_followed_refs(repository_id)
        self._request_render(repository_id, service_id)

    async def _schedule_all(self) -> None:
        async with self._context.store.read() as tx:
            repositories = await tx[RepositoryStore].all()
        for repository in repositories:
            await self._repositories.update_followed_refs(repository.id)
            self._request_render(repository.id)
