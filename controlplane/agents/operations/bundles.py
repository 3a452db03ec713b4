"""Bundles for agents: only those of the agent's own cluster, rendered again if the git cache lost
them."""

from collections.abc import Sequence

from controlplane.access.operations.refusal_aggregation import RefusalAggregator
from controlplane.agents.operations.audit import refused_bundle_entry
from controlplane.audit.ports import AuditLog
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.operations.contexts import template_values
from controlplane.delivery.operations.render_reconciler import render_parameters
from controlplane.platform.context import OperationContext
from controlplane.platform.ports import Transaction
from controlplane.services.model.service import Service
from controlplane.services.operations.sources import resolve_sources, sources_of
from controlplane.services.ports import RevisionStore, ServiceStore
from core.errors import NotFound
from core.identity import ClusterId
from core.runtime.batcher import Batcher

BundleKey = tuple[ClusterId, str]


class AgentBundles:
    """Serves bundles; agents that fetch at the same time share one permission query."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._users: Batcher[BundleKey, Service | None] = Batcher(self._find_users)
        self._refusals = RefusalAggregator(context.clock)

    async def fetch(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses.

        NotFound: no service uses it. Unavailable.
        """
        user = await self._users.ask((cluster_id, digest))
        if user is None:
            await self._refuse(cluster_id, digest)
        elif user.desired.commit_sha is not None:
            try:
                return await self._context.manifests.bundle(digest)
            except NotFound:
                # The git cache may evict bundles that it can render again.
                await self._render(user, user.desired.commit_sha)
                return await self._context.manifests.bundle(digest)
        raise NotFound(f"no service of this cluster uses {digest}")

    async def _find_users(self, keys: Sequence[BundleKey]) -> list[Service | None]:
        clusters, digests = zip(*keys, strict=True)
        async with self._context.store.read() as tx:
            there = await tx[ClusterStore].column("id", set(clusters))
            found = await tx[ServiceStore].with_digests(set(clusters), set(digests))
        users = {
            (service.cluster_id, service.desired.digest): service
            for service in found
            if service.cluster_id in there
        }
        return [users.get(key) for key in keys]

    async def _render(self, user: Service, sha: str) -> None:
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(user.cluster_id)
            contexts = await template_values(self._context.sealer, tx, [user])
            sources = await sources_of(tx, [user.id])
        if cluster is None:
            raise NotFound("this cluster was deleted")
        parameters = render_parameters(user, cluster, contexts.get(user.id, {}))
        further = resolve_sources(self._context, sources.get(user.id, ()), as_rendered=True)
        await self._context.manifests.render(user.render_request(sha, parameters, further.folders))

    async def _refuse(self, cluster_id: ClusterId, digest: str) -> None:
        """Records that an agent requested a bundle of another cluster."""
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(cluster_id)
            is_anothers = await _belongs_to_other_cluster(tx, cluster_id, digest)
        if is_anothers and cluster is not None:
            await self._note_refused(cluster, digest)

    async def _note_refused(self, cluster: Cluster, digest: str) -> None:
        """Writes the first refusal of a minute as a row, and later ones as one row with a count."""
        refusal = refused_bundle_entry(cluster, digest, self._context.clock.now())
        rows = [*self._refusals.due(), self._refusals.take(refusal, cluster.id)]
        entries = [entry for entry in rows if entry is not None]
        if entries:
            async with self._context.store.write() as tx:
                await tx[AuditLog].append(entries)


async def _belongs_to_other_cluster(tx: Transaction, cluster_id: ClusterId, digest: str) -> bool:
    """True if only services of other clusters use a bundle, and none of this cluster ever did."""
    if await tx[ServiceStore].with_digest(digest) is None:
        return False
    mine = {service.id for service in await tx[ServiceStore].of_clusters_ever(cluster_id)}
    return not (mine and await tx[RevisionStore].with_digest(mine, digest))
