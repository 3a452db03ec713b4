"""Renders the services of a stage at the commits of a release."""

import asyncio
from collections.abc import Mapping, Sequence

from controlplane.delivery.operations.render_inputs import RenderInputs, read_paths
from controlplane.platform.context import ContextOperations
from controlplane.services.model.service import Service
from controlplane.services.operations.fences import (
    check_render_rate,
    fenced_services,
    render_within_fence,
)
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import Conflict
from core.identity import ServiceId
from core.spec.source import RenderedBundle

_CONCURRENT_RENDERS = 32


class StageRenderer(ContextOperations):
    """Renders services at the commits of a release."""

    async def select_commits(
        self, services: Sequence[Service], commits: Mapping[ServiceId, str]
    ) -> dict[ServiceId, str]:
        """The commit for each service: that of the first stage's service with its name, else the
        newest.

        `commits` are the commits of the first stage's services; only the same repository counts.
        Forbidden: a commit comes from a ref outside the fence of its service.
        """
        async with self._context.store.read() as tx:
            sources = await tx[ServiceStore].by_ids(commits.keys())
            rows = await tx[RevisionStore].of_commits(commits.keys(), set(commits.values()))
            fenced = {row.service.id: row for row in await fenced_services(tx, services)}
        dates = {row.sha: row.committed_at for row in rows}
        commit_of_service = {}
        for service in services:
            same_repository = [s for s in sources if s.repository_id == service.repository_id]
            if not same_repository:
                raise Conflict(
                    f"no service of the first stage uses the repository of service "
                    f"{service.name!r}: there is no commit to promote"
                )
            namesake = next((s for s in same_repository if s.name == service.name), None)
            newest = max(same_repository, key=lambda s: dates.get(commits[s.id], s.inserted_at))
            origin = namesake or newest
            commit = commit_of_service[service.id] = commits[origin.id]
            if (fence := fenced.get(service.id)) is not None:
                refs = {row.ref for row in rows if row.sha == commit} or {origin.spec.ref}
                fence.check_origin(commit, refs)
        return commit_of_service

    async def count_renders(self, services: Sequence[Service]) -> None:
        """Counts renders of services. LimitExceeded: their project renders too often."""
        async with self._context.store.read() as tx:
            fenced = await fenced_services(tx, services)
        check_render_rate(self._context, fenced)

    async def render(
        self, services: Sequence[Service], commits: Mapping[ServiceId, str]
    ) -> dict[ServiceId, RenderedBundle]:
        """The render of each service at its commit. Conflict: a cluster was deleted."""
        async with self._context.store.read() as tx:
            inputs = await RenderInputs.load(self._context, tx, services)

        async def render(service: Service) -> RenderedBundle:
            request, _ = inputs.request(self._context, service, commits[service.id])
            return await render_within_fence(self._context, inputs.fenced(service), request)

        renders: dict[ServiceId, RenderedBundle] = {}
        for start in range(0, len(services), _CONCURRENT_RENDERS):
            batch = services[start : start + _CONCURRENT_RENDERS]
            results = await asyncio.gather(*map(render, batch), return_exceptions=True)
            for service, result in zip(batch, results, strict=True):
                if isinstance(result, BaseException):
                    raise result
                renders[service.id] = result
        return renders

    async def reads(
        self,
        services: Sequence[Service],
        commits: Mapping[ServiceId, str],
        renders: Mapping[ServiceId, RenderedBundle],
    ) -> dict[ServiceId, dict[str, str]]:
        """The git ids of the paths that each render read."""
        return {
            service.id: await read_paths(
                self._context, service, commits[service.id], renders[service.id]
            )
            for service in services
        }
