"""Search: objects of all clusters by their properties, and any resource by part of its name."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from controlplane.audit.model.chains import AuditFilter
from controlplane.audit.ports import AuditLog
from controlplane.authorization import Actor, ResourceKind, Visible, require_member
from controlplane.clusters.ports import ClusterStore
from controlplane.pipelines.ports import PipelineStore
from controlplane.platform.context import ContextOperations
from controlplane.platform.limits import check_range
from controlplane.platform.names import check_text
from controlplane.platform.ports import MAX_PAGE_ROWS, PageQuery, Rows, Transaction
from controlplane.search.model import NamedItem, NamedItemKind, parse_search, rank_by_name
from controlplane.search.ports import SearchPage, SearchStore
from controlplane.secrets.ports import SecretStore
from controlplane.services.model.status_codes import ClusterMapRow
from controlplane.services.ports import ServiceStore
from core.errors import LimitExceeded

MAX_RESULTS = 50
MAX_OBJECTS = 100
MAX_CHANGES = 5_000
_MAX_NAMED = 1_000
_OVERLAP = timedelta(minutes=1)
_CLUSTER_TIMES = ("updated_at", "pinged_at", "ending_at", "deleted_at")
_HARD_DELETED: Mapping[ResourceKind, tuple[type[Rows[Any]], str]] = {
    ResourceKind.PIPELINE: (PipelineStore, "deletePipeline"),
    ResourceKind.SECRET: (SecretStore, "deleteSecret"),
}
"""Kinds whose rows are deleted, and the audit action of their deletion."""


class SearchOperations(ContextOperations):
    """Operations that search everything the actor may read."""

    async def objects(self, actor: Actor, text: str, first: int, after: str | None) -> SearchPage:
        """Objects that match a query; see `controlplane.search.model`.

        Invalid: a malformed query.
        """
        require_member(actor)
        check_range(first, "first", 1, MAX_OBJECTS)
        search = parse_search(text)
        async with self._context.store.read() as tx:
            visible = actor.policy.visible(ResourceKind.SERVICE)
            return await tx[SearchStore].objects(search, visible, first, after)

    async def places(self, actor: Actor, text: str, first: int = 10) -> Sequence[NamedItem]:
        """Resources of all named kinds by part of their name, best match first."""
        require_member(actor)
        check_text(text, "q", 200)
        check_range(first, "first", 1, MAX_RESULTS)
        allowed = {kind: actor.policy.visible(ResourceKind[kind.name]) for kind in NamedItemKind}
        async with self._context.store.read() as tx:
            return rank_by_name(await tx[SearchStore].places(text, allowed), text, first)

    async def fleet_map(
        self, actor: Actor, query: PageQuery, clusters: Collection[str] | None = None
    ) -> list[ClusterMapRow]:
        """One row per cluster, or per given cluster, with a letter for each matching service."""
        async with self._context.read(actor) as tx:
            query = replace(query, visible=actor.policy.visible(ResourceKind.SERVICE))
            return await tx[ServiceStore].fleet_map(query, clusters)

    async def changed_since(self, actor: Actor, kind: ResourceKind, moment: datetime) -> list[str]:
        """Ids of services, clusters, pipelines or secrets that changed or were deleted since
        `moment`.

        Subscribers use it to catch up after a gap. LimitExceeded: so many changed that reading the
        list again is faster.
        """
        require_member(actor)
        visible = actor.policy.visible(kind)
        # The overlap covers transactions that were open at that moment.
        start, limit = moment - _OVERLAP, MAX_CHANGES + 1
        async with self._context.store.read() as tx:
            if kind is ResourceKind.SERVICE:
                ids = await tx[ServiceStore].changed_since(start, visible, limit)
            elif kind is ResourceKind.CLUSTER:
                ids = await tx[ClusterStore].since(_CLUSTER_TIMES, start, visible, limit)
            else:
                port, deletion = _HARD_DELETED[kind]
                ids = await tx[port].since(["updated_at"], start, visible, limit)
                ids += await _deleted(tx, deletion, start, visible)
        if len(ids) > MAX_CHANGES:
            raise LimitExceeded(f"more than {MAX_CHANGES:,} changes: read the list again")
        return ids

    async def affected_clusters(
        self, actor: Actor, services: Collection[str], clusters: Collection[str]
    ) -> set[str] | None:
        """The clusters of changed services, and changed clusters; None if there are too many."""
        require_member(actor)
        if len(services) + len(clusters) > _MAX_NAMED:
            return None
        async with self._context.store.read() as tx:
            return {*clusters, *await tx[ServiceStore].clusters_of(services)} - {""}


async def _deleted(tx: Transaction, action: str, since: datetime, visible: Visible) -> list[str]:
    """Ids of deleted resources, which only the audit log contains. LimitExceeded: too many."""
    query = PageQuery(MAX_PAGE_ROWS, visible=visible, newest=True)
    page = await tx[AuditLog].search(AuditFilter(action=action, since=since), query)
    if page.more:
        raise LimitExceeded(f"more than {MAX_PAGE_ROWS:,} deletions: read the list again")
    return [item.target_id for item in page.items]
