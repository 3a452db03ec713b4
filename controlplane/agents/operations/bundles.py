"""Bundles for agents: only those of the agent's own cluster, rendered again if the git cache lost
them."""

from collections.abc import Sequence

from controlplane.access.operations.refusal_aggregation import RefusalAggregator
from controlplane.agents.operations.audit import refused_bundle_entry
from controlplane.audit.ports import AuditLog
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.configuration.operations.contexts import template_values
from controlplane.delivery.operations.render_inputs import render_parameters
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
        self._queries: Batcher[BundleKey, Service | None] = Batcher(self._find_services)
        self._refusals = RefusalAggregator(context.clock)

    async def fetch(self, cluster_id: ClusterId, digest: str) -> bytes:
        """A bundle that a service of this cluster uses.

        NotFound: no service uses it. Unavailable.
        """
        service = await self._queries.submit((cluster_id, digest))
        if service is None:
            await self._record_refusal(cluster_id, digest)
        elif service.desired.commit_sha is not None:
            try:
                return await self._context.manifests.bundle(digest)
            except NotFound:
                # The git cache may evict bundles that it can render again.
                await self._render_again(service, service.desired.commit_sha)
                return await self._context.manifests.bundle(digest)
        raise NotFound(f"no service of this cluster uses {digest}")

    async def _find_services(self, keys: Sequence[BundleKey]) -> list[Service | None]:
        clusters, digests = zip(*keys, strict=True)
        async with self._context.store.read() as tx:
            existing = await tx[ClusterStore].column("id", set(clusters))
            found = await tx[ServiceStore].with_digests(set(clusters), set(digests))
        services = {
            (service.cluster_id, service.desired.digest): service
            for service in found
            if service.cluster_id in existing
        }
        return [services.get(key) for key in keys]

    async def _render_again(self, service: Service, sha: str) -> None:
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(service.cluster_id)
            contexts = await template_values(self._context.sealer, tx, [service])
            sources = await sources_of(tx, [service.id])
        if cluster is None:
            raise NotFound("this cluster was deleted")
        parameters = render_parameters(service, cluster, contexts.get(service.id, {}))
        resolved = resolve_sources(self._context, sources.get(service.id, ()), as_rendered=True)
        await self._context.render(service.render_request(sha, parameters, resolved.folders))

    async def _record_refusal(self, cluster_id: ClusterId, digest: str) -> None:
        """Records that an agent requested a bundle of another cluster."""
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(cluster_id)
            is_foreign = await _belongs_to_other_cluster(tx, cluster_id, digest)
        if is_foreign and cluster is not None:
            await self._audit_refusal(cluster, digest)

    async def _audit_refusal(self, cluster: Cluster, digest: str) -> None:
        """Writes the first refusal of a minute as a row, and later ones as one row with a count."""
        refusal = refused_bundle_entry(cluster, digest, self._context.clock.now())
        rows = [*self._refusals.pop_summaries(), self._refusals.record(refusal, cluster.id)]
        entries = [entry for entry in rows if entry is not None]
        if entries:
            async with self._context.store.write() as tx:
                await tx[AuditLog].append(entries)


async def _belongs_to_other_cluster(tx: Transaction, cluster_id: ClusterId, digest: str) -> bool:
    """True if only services of other clusters use a bundle, and none of this cluster ever did."""
    if await tx[ServiceStore].with_digest(digest) is None:
        return False
    own_ids = {
        service.id for service in await tx[ServiceStore].of_clusters_with_deleted(cluster_id)
    }
    return not (own_ids and await tx[RevisionStore].with_digest(own_ids, digest))
