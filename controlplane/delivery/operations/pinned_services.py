"""Services at the commit of a rollback: the number of commits that they are behind their ref."""

from collections import OrderedDict
from collections.abc import Sequence

import structlog

from controlplane.platform.context import SERVICE, OperationContext
from controlplane.platform.git_ports import GitHistory
from controlplane.repositories.model.repository import Repository
from controlplane.repositories.ports import RepositoryStore
from controlplane.services.model.render_state import RenderState
from controlplane.services.ports import RenderStateStore, ServiceStore
from core.errors import TowlineError
from core.identity import RepositoryId
from core.spec.source import Commit, RepositoryKind

log = structlog.get_logger(__name__)

_MAX_CACHED = 10_000


class PinnedServices:
    """Counts the commits after a rollback, once for each pair of commits."""

    def __init__(self, context: OperationContext, history: GitHistory | None) -> None:
        self._context = context
        self._history = history
        self._counts: OrderedDict[tuple[RepositoryId, str, str], int | None] = OrderedDict()

    async def update(self, key: str) -> None:
        """Counts for one service (`repository/service`), or for all services of a repository."""
        repository_id, _, service_id = key.partition("/")
        async with self._context.store.read() as tx:
            table = tx[RenderStateStore]
            states = await (
                table.of_repository_among(repository_id, {service_id})
                if service_id
                else table.of_repository(repository_id)
            )
            pinned = [state for state in states if state.is_rolled_back]
            repository = await tx[RepositoryStore].get(repository_id) if pinned else None
        if repository is not None and repository.kind is RepositoryKind.GIT:
            await self._update_counts(repository, pinned)

    async def _update_counts(self, repository: Repository, pinned: Sequence[RenderState]) -> None:
        state = self._context.manifests.state(repository.id)
        commits = state.commits if state is not None else repository.commits
        counted_from = {service.id: service.pinned_sha for service in pinned}
        changed: dict[str, int | None] = {}
        for service in pinned:
            behind = await self._count_commits(repository.id, service, commits.get(service.ref))
            if behind != service.commits_behind:
                changed[service.id] = behind
        if not changed:
            return
        async with self._context.store.write() as tx:
            for current in await tx[ServiceStore].lock(changed.keys()):
                # Another rollback may have pinned the service meanwhile.
                if current.desired.pinned_sha == counted_from[current.id]:
                    await tx[ServiceStore].set_commits_behind(current.id, changed[current.id])
        for id in changed:
            self._context.bus.publish(SERVICE, id)

    async def _count_commits(
        self, repository_id: RepositoryId, service: RenderState, tip: Commit | None
    ) -> int | None:
        """Returns the number of commits; None if the Git server does not tell."""
        if self._history is None or tip is None or service.pinned_sha is None:
            return None
        key = (repository_id, service.pinned_sha, tip.sha)
        if key not in self._counts:
            try:
                self._counts[key] = await self._history.count_commits(*key)
            except TowlineError as error:
                log.info(
                    "commits cannot be counted", repository=repository_id, reason=error.message
                )
                self._counts[key] = None
            while len(self._counts) > _MAX_CACHED:
                self._counts.popitem(last=False)
        return self._counts[key]
