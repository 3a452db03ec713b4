"""Cluster sources in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.access.api.types import ProjectType
from controlplane.cluster_sources.model.inventory import ClusterProperty
from controlplane.cluster_sources.model.members import ClusterSourceMember, MemberState
from controlplane.cluster_sources.model.source import (
    ClusterSource,
    ClusterSourceResult,
    GonePolicy,
    InventoryKind,
)
from controlplane.cluster_sources.operations.sources import ClusterSourceChange, ClusterSources
from controlplane.clusters.api.clusters import Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output

strawberry.enum(InventoryKind, name="ClusterInventoryKind")
strawberry.enum(GonePolicy, name="ClusterGonePolicy")
strawberry.enum(ClusterSourceResult, name="ClusterSourceResult")
strawberry.enum(MemberState, name="ClusterSourceMemberState")


@output(ClusterProperty)
class ClusterPropertyType(Output[ClusterProperty]):
    """A property of a cluster, from the status of its ClusterProfile."""

    name: str
    """Name of the property."""
    value: str
    """Value of the property."""


@output(
    ClusterSourceMember,
    hide={"source_id", "cluster_id", "token_id"},
    nullable={"message", "version"},
    name="ClusterSourceMember",
)
class ClusterSourceMemberType(Output[ClusterSourceMember]):
    """An object of a cluster source."""

    tags: list[Tag] = computed(tags_of)
    cluster: str | None
    """Handle of the registered cluster. Null if there is none, or the caller may not read it."""


@output(
    ClusterSource,
    rename={"interval_seconds": "interval_s"},
    hide={"project_id", "cluster_id", "service_account_id"},
    nullable={"namespace", "selector", "message"},
    name="ClusterSource",
)
class ClusterSourceType(Output[ClusterSource]):
    """Objects in a management cluster whose clusters are registered."""

    tags: list[Tag] = computed(lambda row: tags_of(row.settings))
    project: ProjectType | None
    """Project of the source and of its clusters."""
    cluster: str | None
    """Handle of the management cluster. Null if the caller may not read it."""
    service_account: str | None
    """E-mail address of the service account. Null if the caller may not read it."""

    @strawberry.field
    async def members(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        state: MemberState | None = None,
    ) -> relay.Connection[ClusterSourceMemberType]:
        """Objects that the source selects, or whose clusters it has registered.

        Args:
            q: Text to search for in namespaces and names. Limit: 200 characters.
            state: Keeps objects in this state.
        """
        asked = relay.page_query(first, after, q, info=info, state=state)
        page = await info.context[ClusterSources].members(info.context.actor, self.id, asked)
        return await relay.connection_of_many(info.context, page, asked, _members)


@draft(ClusterSourceChange, rename={"interval_seconds": "interval_s"})
class ClusterSourceAttributes(Draft[ClusterSourceChange]):
    """Fields of a cluster source. A field that is null or absent stays as it is."""

    tags: list[TagAttributes] | None = None


@strawberry.type
class ClusterSourceQuery:
    """Queries of cluster sources."""

    @strawberry.field
    async def cluster_source(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ClusterSourceType | None:
        """A cluster source, by ID or name.

        Args:
            id: ID of the cluster source.
        """
        row = await info.context[ClusterSources].get(info.context.actor, id, name)
        return await _type(info.context, row)

    @strawberry.field
    async def cluster_sources(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ClusterSourceType]:
        """Cluster sources.

        Args:
            q: Text to search for in names. Limit: 200 characters.
        """
        asked = relay.page_query(first, after, q, labels=labels)
        page = await info.context[ClusterSources].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)


@strawberry.type
class ClusterSourceMutation:
    """Mutations of cluster sources."""

    @strawberry.mutation
    async def create_cluster_source(
        self, info: Info, attributes: ClusterSourceAttributes
    ) -> ClusterSourceType | None:
        """Creates a cluster source. The caller needs all permissions of its service account.

        Args:
            attributes: Fields of the cluster source.
        """
        sources = info.context[ClusterSources]
        row = await sources.create(info.context.actor, attributes.change())
        return await _type(info.context, row)

    @strawberry.mutation
    async def update_cluster_source(
        self, info: Info, id: strawberry.ID, attributes: ClusterSourceAttributes
    ) -> ClusterSourceType | None:
        """Updates, suspends or resumes a cluster source.

        Args:
            id: ID of the cluster source.
            attributes: Fields to change. More than `suspended` and `intervalSeconds` needs all
                permissions of the service account.
        """
        sources = info.context[ClusterSources]
        row = await sources.update(info.context.actor, id, attributes.change())
        return await _type(info.context, row)

    @strawberry.mutation
    async def delete_cluster_source(
        self, info: Info, id: strawberry.ID
    ) -> ClusterSourceType | None:
        """Deletes a cluster source. Its clusters stay registered.

        Args:
            id: ID of the cluster source.
        """
        row = await info.context[ClusterSources].delete(info.context.actor, id)
        return await _type(info.context, row)

    @strawberry.mutation
    async def sync_cluster_source(self, info: Info, id: strawberry.ID) -> ClusterSourceType | None:
        """Reads the objects of a cluster source now.

        Args:
            id: ID of the cluster source.
        """
        row = await info.context[ClusterSources].sync(info.context.actor, id)
        return await _type(info.context, row)


async def _type(context: Context, row: ClusterSource) -> ClusterSourceType:
    return (await _types(context, [row]))[0]


async def _types(context: Context, rows: Sequence[ClusterSource]) -> list[ClusterSourceType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    sources, actor = context[ClusterSources], context.actor
    handles = await sources.handles(actor, {row.settings.cluster_id for row in rows})
    accounts = await sources.accounts(actor, {row.settings.service_account_id for row in rows})
    return [
        ClusterSourceType.of(
            row,
            project=projects.get(row.project_id),
            cluster=handles.get(row.settings.cluster_id),
            service_account=accounts.get(row.settings.service_account_id),
        )
        for row in rows
    ]


async def _members(
    context: Context, rows: Sequence[ClusterSourceMember]
) -> list[ClusterSourceMemberType]:
    ids = {row.cluster_id for row in rows if row.cluster_id}
    handles = await context[ClusterSources].handles(context.actor, ids)
    return [
        ClusterSourceMemberType.of(row, cluster=handles.get(row.cluster_id or "")) for row in rows
    ]
