"""Bundles for agents: only those of the agent's own cluster, rendered again if the git cache lost
them."""

from collections.abc import Sequence

from controlplane.domain.clusters import Cluster
from controlplane.domain.services import Service
from controlplane.ports import ANY, Transaction
from controlplane.usecases.audit_agents import refused_bundle
from controlplane.usecases.contexts import values_of
from controlplane.usecases.delivery import parameters_of
from controlplane.usecases.deps import Deps
from controlplane.usecases.sources import sources_of, take
from controlplane.usecases.strangers import Strangers
from fleet.errors import NotFound
from fleet.identity import ClusterId
from fleet.runtime.batches import Batches

Asked = tuple[ClusterId, str]


class Bundles:
    """Serves bundles; agents that fetch at the same time share one permission query."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._users: Batches[Asked, Service | None] = Batches(self._find_users)
        self._strangers = Strangers(deps.clock)

    async def fetch(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses.

        NotFound: no service uses it. Unavailable.
        """
        user = await self._users.ask((cluster_id, digest))
        if user is None:
            await self._refuse(cluster_id, digest)
        elif user.sha is not None:
            try:
                return await self._deps.manifests.bundle(digest)
            except NotFound:
                # The git cache may evict bundles that it can render again.
                await self._render(user, user.sha)
                return await self._deps.manifests.bundle(digest)
        raise NotFound(f"no service of this cluster uses {digest}")

    async def _find_users(self, asked: Sequence[Asked]) -> list[Service | None]:
        clusters, digests = zip(*asked, strict=True)
        async with self._deps.store.read() as tx:
            there = await tx.clusters.column("id", set(clusters))
            found = await tx.services.select(cluster_id=set(clusters), digest=set(digests))
        users = {
            (service.cluster_id, service.digest): service
            for service in found
            if service.cluster_id in there
        }
        return [users.get(key) for key in asked]

    async def _render(self, user: Service, sha: str) -> None:
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(user.cluster_id)
            contexts = await values_of(self._deps, tx, [user])
            sources = await sources_of(tx, [user.id])
        if cluster is None:
            raise NotFound("this cluster was deleted")
        parameters = parameters_of(user, cluster, contexts.get(user.id, {}))
        taken = take(self._deps, sources.get(user.id, ()), as_rendered=True)
        await self._deps.manifests.render(user.render_request(sha, parameters, taken.folders))

    async def _refuse(self, cluster_id: ClusterId, digest: str) -> None:
        """Records that an agent requested a bundle of another cluster."""
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(cluster_id)
            is_anothers = await _is_anothers(tx, cluster_id, digest)
        if is_anothers and cluster is not None:
            await self._note_refused(cluster, digest)

    async def _note_refused(self, cluster: Cluster, digest: str) -> None:
        """Writes the first refusal of a minute as a row, and later ones as one row with a count."""
        asked = refused_bundle(cluster, digest, self._deps.clock.now())
        rows = [*self._strangers.due(), self._strangers.take(asked, cluster.id)]
        entries = [entry for entry in rows if entry is not None]
        if entries:
            async with self._deps.store.write() as tx:
                await tx.audit.append(entries)


async def _is_anothers(tx: Transaction, cluster_id: ClusterId, digest: str) -> bool:
    """True if only services of other clusters use a bundle, and none of this cluster ever did."""
    if await tx.services.find(digest=digest) is None:
        return False
    mine = {
        service.id for service in await tx.services.select(cluster_id=cluster_id, deleted_at=ANY)
    }
    return not (mine and await tx.revisions.select(service_id=mine, digest=digest))
