"""Renders the services of a stage at the commits of a release."""

import asyncio
from collections.abc import Mapping, Sequence

from controlplane.domain.clusters import Cluster
from controlplane.domain.services import Service
from controlplane.domain.sources import ServiceSource
from controlplane.usecases.contexts import values_of
from controlplane.usecases.delivery import parameters_of, reads_of
from controlplane.usecases.deps import Deps
from controlplane.usecases.sources import sources_of, take
from fleet.errors import Conflict
from fleet.identity import ServiceId
from fleet.source import Rendered

_AT_ONCE = 32


class StageRenders:
    """Renders services at the commits of a release."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps

    async def commits(
        self, services: Sequence[Service], commits: Mapping[ServiceId, str]
    ) -> dict[ServiceId, str]:
        """The commit for each service: that of the first stage's service with its name, else the
        newest.

        `commits` are the commits of the first stage's services; only the same repository counts.
        """
        async with self._deps.store.read() as tx:
            sources = await tx.services.select(id=commits.keys())
            rows = await tx.revisions.select(service_id=commits.keys(), sha=set(commits.values()))
        dates = {row.sha: row.committed_at for row in rows}
        chosen = {}
        for service in services:
            same = [s for s in sources if s.repository_id == service.repository_id]
            if not same:
                raise Conflict(
                    f"no service of the first stage uses the repository of service "
                    f"{service.name!r}: there is no commit to promote"
                )
            namesake = next((s for s in same if s.name == service.name), None)
            newest = max(same, key=lambda s: dates.get(commits[s.id], s.inserted_at))
            chosen[service.id] = commits[(namesake or newest).id]
        return chosen

    async def of(
        self, services: Sequence[Service], commits: Mapping[ServiceId, str]
    ) -> dict[ServiceId, Rendered]:
        """The render of each service at its commit. Conflict: a cluster was deleted."""
        async with self._deps.store.read() as tx:
            rows = await tx.clusters.select(id={service.cluster_id for service in services})
            contexts = await values_of(self._deps, tx, services)
            sources = await sources_of(tx, [service.id for service in services])
        clusters = {cluster.id: cluster for cluster in rows}
        found: dict[ServiceId, Rendered] = {}
        for start in range(0, len(services), _AT_ONCE):
            some = services[start : start + _AT_ONCE]
            works = (
                self._render(
                    service,
                    clusters.get(service.cluster_id),
                    commits[service.id],
                    contexts.get(service.id, {}),
                    sources.get(service.id, ()),
                )
                for service in some
            )
            results = await asyncio.gather(*works, return_exceptions=True)
            for service, result in zip(some, results, strict=True):
                if isinstance(result, BaseException):
                    raise result
                found[service.id] = result
        return found

    async def reads(
        self,
        services: Sequence[Service],
        commits: Mapping[ServiceId, str],
        done: Mapping[ServiceId, Rendered],
    ) -> dict[ServiceId, dict[str, str]]:
        """The git ids of the paths that each render read."""
        return {
            service.id: await reads_of(self._deps, service, commits[service.id], done[service.id])
            for service in services
        }

    async def _render(
        self,
        service: Service,
        cluster: Cluster | None,
        commit: str,
        given: Mapping,
        sources: Sequence[ServiceSource],
    ) -> Rendered:
        if cluster is None:
            raise Conflict(f"the cluster of service {service.name!r} was deleted")
        parameters = parameters_of(service, cluster, given)
        taken = take(self._deps, sources)
        return await self._deps.manifests.render(
            service.render_request(commit, parameters, taken.folders)
        )
