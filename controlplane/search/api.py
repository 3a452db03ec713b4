"""Search for objects and names, and the fleet map with its changes."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from dataclasses import dataclass, field
from datetime import datetime

import strawberry

from controlplane.clusters.api.clusters import Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.model.cluster import SILENT_AFTER
from controlplane.platform.context import CLUSTER, SERVICE
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.platform.ports import ANY, LOST_WAKES, MAX_FOUND, Bus, PageQuery, Wake
from controlplane.search.model import NamedItem, NamedItemKind, SearchHit
from controlplane.search.operations import SearchOperations
from controlplane.services.model.status_codes import ClusterMapRow, ServiceStatus, status_codes_of
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks

strawberry.enum(NamedItemKind, name="NamedItemKind")

_MIN_INTERVAL_SECONDS = 1.0
_DEBOUNCE_SECONDS = 0.1


@output(SearchHit, rename={"object": "component", "cluster_pinged_at": "pinged_at"})
class FoundObject(Output[SearchHit]):
    """An object in some cluster."""

    id: strawberry.ID = computed(lambda hit: hit.component.id)
    service_id: strawberry.ID = computed(lambda hit: hit.component.service_id)
    """ID of the service."""
    cluster_id: strawberry.ID = computed(lambda hit: hit.component.cluster_id)
    """ID of the cluster."""
    age_seconds: float | None
    """Seconds since the last report of the agent. Null if it has never connected."""
    stale: bool
    """True if the last report is older than 5 minutes."""


@output(NamedItem, nullable={"within"})
class Place(Output[NamedItem]):
    """A named resource."""


@output(ClusterMapRow, rename={"services": "status_codes"})
class FleetMapRow(Output[ClusterMapRow]):
    """A cluster in the fleet map."""

    tags: list[Tag] = computed(tags_of)


@strawberry.type
class FleetMap:
    """All services of the fleet at a glance."""

    rows: list[FleetMapRow]
    """Clusters."""


@strawberry.type
class FleetDelta:
    """Changes to the fleet map. The first message contains all rows."""

    rows: list[FleetMapRow]
    """Rows that changed."""
    gone: list[strawberry.ID]
    """IDs of clusters that left the map."""


@strawberry.input
class FleetFilter:
    """Filter for services in the fleet map. A service must match every given field."""

    status: list[ServiceStatus] | None = None
    """States of services."""
    cluster_id: strawberry.ID | None = None
    """ID of the cluster."""
    project_id: strawberry.ID | None = None
    """ID of the project."""
    repository_id: strawberry.ID | None = None
    """ID of the repository."""
    tags: list[TagAttributes] | None = None
    """Tags of the cluster. All are required. Limit: 10."""
    labels: str | None = None
    """Label selector of Kubernetes for labels of the service or tags of its cluster:
    `env in (a,b),tier!=web`. Limit: 10 labels."""
    q: str | None = None
    """Text to search for in service names and namespaces. Limit: 200 characters."""

    def query(self) -> PageQuery:
        """Returns the filter for the store."""
        return relay.page_query(
            None,
            None,
            self.q,
            tags=self.tags,
            labels=self.labels,
            deleted_at=ANY,
            status_code=status_codes_of(self.status) if self.status else None,
            cluster_id=self.cluster_id,
            project_id=self.project_id,
            repository_id=self.repository_id,
        )


@dataclass(slots=True)
class _SentRows:
    """Rows of the map that a subscriber has received."""

    rows: dict[str, ClusterMapRow] = field(default_factory=dict)

    def changes_since_sent(
        self, rows: list[ClusterMapRow], clusters: set[str] | None = None
    ) -> FleetDelta | None:
        """Returns the changes in all clusters or in `clusters`, or None without changes."""
        now = {row.id: row for row in rows}
        changed = [row for row in rows if self.rows.get(row.id) != row]
        gone = [id for id in (self.rows if clusters is None else clusters & self.rows.keys())
                if id not in now]  # fmt: skip
        for id in gone:
            del self.rows[id]
        self.rows |= now
        if not changed and not gone:
            return None
        ids = [strawberry.ID(id) for id in gone]
        return FleetDelta(rows=FleetMapRow.of_each(changed), gone=ids)


class _ChangedKeys:
    """Collects the keys of changed services and clusters."""

    def __init__(self, wakes: AsyncIterator[Wake]) -> None:
        self._wakes = wakes
        self._changed = asyncio.Event()
        self._keys: dict[str, set[str]] = {SERVICE: set(), CLUSTER: set(), LOST_WAKES: set()}

    async def collect(self) -> None:
        """Collects until the bus closes."""
        async for topic, key in self._wakes:
            self._keys[topic].add(key)
            self._changed.set()

    async def wait(self) -> None:
        """Waits for a change."""
        await self._changed.wait()

    def take(self) -> tuple[set[str], set[str]] | None:
        """Returns the changed services and clusters, or None if changes may be missing."""
        self._changed.clear()
        taken = self._keys
        self._keys = {topic: set() for topic in taken}
        return None if taken[LOST_WAKES] else (taken[SERVICE], taken[CLUSTER])


async def _fleet_deltas(context: Context, query: PageQuery) -> AsyncGenerator[FleetDelta, None]:
    search, sent, clock = context[SearchOperations], _SentRows(), context[Clock]
    changes = _ChangedKeys(context[Bus].subscribe(SERVICE, CLUSTER, LOST_WAKES))
    tasks = Tasks("fleet map")
    tasks.spawn("gather", changes.collect())
    try:
        await context.recheck()
        first = sent.changes_since_sent(await search.fleet_map(context.actor, query))
        yield first or FleetDelta(rows=[], gone=[])
        sent_at = clock.monotonic()
        while True:
            await changes.wait()
            # A single change is sent at once; further changes within a second are sent together.
            await clock.sleep(
                max(_DEBOUNCE_SECONDS, sent_at + _MIN_INTERVAL_SECONDS - clock.monotonic())
            )
            sent_at = clock.monotonic()
            changed = changes.take()
            await context.recheck()
            affected = await search.affected_clusters(context.actor, *changed) if changed else None
            delta = sent.changes_since_sent(
                await search.fleet_map(context.actor, query, affected), affected
            )
            if delta is not None:
                yield delta
    finally:
        await tasks.stop()


def _found_object(hit: SearchHit, now: datetime) -> FoundObject:
    age = now - hit.pinged_at if hit.pinged_at else None
    return FoundObject.of(
        hit,
        age_seconds=age.total_seconds() if age is not None else None,
        stale=age is None or age > SILENT_AFTER,
    )


@strawberry.type
class SearchQuery:
    @strawberry.field
    async def search(
        self, info: Info, q: str, first: int | None = None, after: str | None = None
    ) -> relay.Connection[FoundObject]:
        """Objects of all clusters that match a query.

        Args:
            q: Query of words and conditions, such as `kind:Deployment image:log4j<2.17
                label:app=shop`.
            first: Number of rows from the start of the list. Default: 50. Limit: 100.
        """
        query = relay.page_query(first, after)
        context, actor = info.context, info.context.actor
        page = await context[SearchOperations].objects(actor, q, query.first, query.after)
        now = context[Clock].now()
        nodes = [_found_object(hit, now) for hit in page.items]
        count, limit = page.count, MAX_FOUND
        return relay.connection(nodes, page.more, query, lambda node: node.id, count, limit)

    @strawberry.field
    async def places(self, info: Info, q: str, first: int = 10) -> list[Place]:
        """Clusters, services, groups of users, repositories and pipelines by part of their name,
        best match first.

        Args:
            q: Part of the name. `CLUSTER/NAME` also finds services by parts of both.
            first: Number of rows. Default: 10. Limit: 50.
        """
        items = await info.context[SearchOperations].places(info.context.actor, q, first)
        return Place.of_each(items)

    @strawberry.field
    async def fleet_map(self, info: Info, filter: FleetFilter | None = None) -> FleetMap:
        """State of all services: one row per cluster, one letter per service.

        Args:
            filter: Filter for services. Default: all services.
        """
        query = (filter or FleetFilter()).query()
        rows = await info.context[SearchOperations].fleet_map(info.context.actor, query)
        return FleetMap(rows=FleetMapRow.of_each(rows))


@strawberry.type
class FleetSubscription:
    @strawberry.subscription
    def fleet_delta(
        self, info: Info, filter: FleetFilter | None = None
    ) -> AsyncGenerator[FleetDelta, None]:
        """Changes to the fleet map, at most one message per second.

        Args:
            filter: Filter for services. Default: all services.
        """
        return _fleet_deltas(info.context, (filter or FleetFilter()).query())
