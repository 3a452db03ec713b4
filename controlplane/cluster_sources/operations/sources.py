"""Creates, changes, deletes and syncs cluster sources.

A source reads and registers as its service account, without a user. So the actor must hold all
permissions of that account.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from controlplane.access.operations.delegation import require_permissions_of_user
from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.access.operations.service_accounts import find_service_account
from controlplane.access.operations.source_runs import SourceOperations, changed_settings
from controlplane.authorization import Actor, ResourceKind, Verb, require
from controlplane.cluster_sources.model.inventory import check_settings
from controlplane.cluster_sources.model.members import ClusterSourceMember
from controlplane.cluster_sources.model.source import (
    ClusterSource,
    ClusterSourceResult,
    ClusterSourceSettings,
)
from controlplane.cluster_sources.operations.clean_up import request_clean_up
from controlplane.cluster_sources.ports import ClusterSourceMemberStore, ClusterSourceStore
from controlplane.clusters.operations.clusters import check_tags, find_cluster
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.context import CLUSTER_SOURCE, Change
from controlplane.platform.limits import check_range
from controlplane.platform.names import check_label
from controlplane.platform.parts import Given, given_part
from controlplane.platform.ports import Page, PageQuery, Transaction, count_each
from controlplane.platform.references import reference
from controlplane.platform.retry import retry_operations
from core.errors import Invalid, NotFound

RECONCILE = "reconcile-cluster-source"
"""Kind of the job of each source."""
MIN_INTERVAL, MAX_INTERVAL = 10, 86_400
MAX_CLUSTERS_LIMIT = 5_000
MAX_DELETIONS_LIMIT = 5_000
_HARMLESS = frozenset({"suspended", "interval_s"})
"""Settings that change neither the objects nor the clusters."""


@dataclass(frozen=True, slots=True)
class ClusterSourceChange:
    """Changes to a cluster source. None leaves a field unchanged."""

    name: str | None = None
    """Unique name, which cannot be changed. Required on creation. Limit: 63 characters."""
    project_id: str | None = None
    """ID of the project of the source and of its clusters. Default: the default project."""
    settings: Given[ClusterSourceSettings] = given_part(ClusterSourceSettings)
    """Settings to change."""

    def applied(self, settings: ClusterSourceSettings) -> ClusterSourceSettings:
        """Returns the changed settings. Invalid: a value is not allowed."""
        after = self.settings.applied(settings)
        for name, field in (("cluster_id", "cluster"), ("service_account_id", "serviceAccount")):
            if not getattr(after, name):
                raise Invalid("is required", field=field)
        check_range(after.interval_s, "intervalSeconds", MIN_INTERVAL, MAX_INTERVAL)
        check_range(after.max_clusters, "maxClusters", 1, MAX_CLUSTERS_LIMIT)
        check_range(after.max_deletions, "maxDeletions", 0, MAX_DELETIONS_LIMIT)
        check_settings(after)
        return replace(after, tags=check_tags(after.tags))


@retry_operations
class ClusterSources(SourceOperations[ClusterSource]):
    """Operations on cluster sources. They belong to those who may register their clusters."""

    kind = ResourceKind.CLUSTER
    noun = "cluster source"
    port = ClusterSourceStore
    job_kind = RECONCILE
    topic = CLUSTER_SOURCE
    immutable_name = "it labels objects of the source"

    async def _find(
        self, tx: Transaction | Change, id: str | None, name: str | None = None
    ) -> ClusterSource:
        source = await tx[ClusterSourceStore].by_id_or_name(id, name)
        if source is None:
            raise NotFound("cluster source does not exist")
        return source

    async def members(
        self, actor: Actor, source_id: str, query: PageQuery
    ) -> Page[ClusterSourceMember]:
        """A page of the objects of a source."""
        async with self._context.read(actor) as tx:
            equals = {**query.equals, "source_id": source_id}
            require(actor, Verb.READ, (await self._find(tx, source_id)).target)
            return await tx[ClusterSourceMemberStore].page(replace(query, equals=equals))

    async def handles(self, actor: Actor, ids: Collection[str]) -> Mapping[str, str]:
        """Handles of clusters that the actor may read, by ID."""
        async with self._context.read(actor) as tx:
            rows = await tx[ClusterStore].by_ids(ids)
        return {row.id: row.handle for row in rows if actor.may(Verb.READ, row.target)}

    async def create(self, actor: Actor, change: ClusterSourceChange) -> ClusterSource:
        """Creates a source, which is reconciled at once.

        Forbidden: the actor may not connect to the management cluster, or the service account has
        a permission that the actor lacks.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "createClusterSource") as tx:
            project = await project_for(tx, ResourceKind.CLUSTER, change.project_id)
            name = check_label(change.name or "", "name")
            settings = change.applied(ClusterSourceSettings())
            source = ClusterSource(self._context.new_id(), name, now, now, project, settings)
            await self._check_name(tx, name)
            await self._check_references(tx, actor, source)
            await tx[ClusterSourceStore].add(source)
            await self._request(tx, source)
            tx.audit(name, source.id)
        return source

    async def update(self, actor: Actor, id: str, change: ClusterSourceChange) -> ClusterSource:
        """Changes a source. Forbidden: as for `create`, for more changes than the suspension or
        the interval."""
        async with self._context.change(actor, "updateClusterSource") as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            check_not_moved(f"cluster source {before.name!r}", before.project_id, change.project_id)
            self._check_same_name(before, change.name)
            settings = change.applied(before.settings)
            changed = changed_settings(before.settings, settings)
            source = replace(before, settings=settings, updated_at=self._context.clock.now())
            if changed - _HARMLESS:
                await self._check_references(tx, actor, source)
            await tx[ClusterSourceStore].put(source)
            await self._request(tx, source)
            tx.audit(before.name, id, changed=sorted(changed))
        return source

    async def delete(self, actor: Actor, id: str) -> ClusterSource:
        """Deletes a source, and later what it has delivered to clusters without an agent.

        Its clusters stay registered, and bootstrap tokens that no agent has used end.
        """
        async with self._context.change(actor, "deleteClusterSource") as tx:
            source = await self._find(tx, id)
            tx.authorize(Verb.WRITE, source.target)
            members = await tx[ClusterSourceMemberStore].of_source(id)
            delivered = [member for member in members if member.token_id]
            await tx[BootstrapTokenStore].remove_each([m.token_id for m in delivered if m.token_id])
            if delivered:
                await request_clean_up(tx, source, delivered)
            await tx[ClusterSourceMemberStore].remove_each([member.id for member in members])
            await tx[ClusterSourceStore].remove(id)
            tx.audit(source.name, id)
            tx.publish(CLUSTER_SOURCE, id)
        return source

    async def sync(self, actor: Actor, id: str) -> ClusterSource:
        """Reconciles a source now. Conflict: it is suspended."""
        async with self._context.change(actor, "syncClusterSource") as tx:
            source = await self._find(tx, id)
            tx.authorize(Verb.WRITE, source.target)
            self._check_active(source)
            await self._request(tx, source)
            tx.audit(source.name, id)
        return source

    async def _check_references(self, tx: Transaction, actor: Actor, source: ClusterSource) -> None:
        settings, now = source.settings, self._context.clock.now()
        with reference("cluster", settings.cluster_id):
            cluster = await find_cluster(tx, settings.cluster_id)
            require(actor, Verb.READ, cluster.target)
        require(actor, Verb.CONNECT, cluster.target)
        with reference("serviceAccount", settings.service_account_id):
            account = await find_service_account(tx, settings.service_account_id)
        await require_permissions_of_user(tx, actor, account, now)


async def count_results(tx: Transaction) -> dict[str, int]:
    """Counts sources by the result of their last reconciliation; suspended ones are left out."""
    return await count_each(tx[ClusterSourceStore], "result", ClusterSourceResult, suspended=False)
