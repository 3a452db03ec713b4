"""Cluster sources in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import load_projects
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
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields

strawberry.enum(InventoryKind, name="ClusterInventoryKind")
strawberry.enum(GonePolicy, name="ClusterGonePolicy")
strawberry.enum(ClusterSourceResult, name="ClusterSourceResult")
strawberry.enum(MemberState, name="ClusterSourceMemberState")


@output(ClusterProperty)
class ClusterPropertyType(Output[ClusterProperty]):
    """A property of a cluster, from the status of its ClusterProfile."""


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
        query = relay.page_query(first, after, q, info=info, state=state)
        page = await info.context[ClusterSources].members(info.context.actor, self.id, query)
        return await relay.connection_of_many(info, page, query, _member_types)


async def _member_types(
    info: Info, rows: Sequence[ClusterSourceMember]
) -> list[ClusterSourceMemberType]:
    ids = {row.cluster_id for row in rows if row.cluster_id}
    handles = await info.context[ClusterSources].handles(info.context.actor, ids)
    return [
        ClusterSourceMemberType.of(row, cluster=handles.get(row.cluster_id or "")) for row in rows
    ]


@draft(ClusterSourceChange, rename={"interval_seconds": "interval_s"})
class ClusterSourceAttributes(Draft[ClusterSourceChange]):
    """Fields of a cluster source. A field that is null or absent stays as it is; a given list
    replaces the whole list."""

    tags: list[TagAttributes] | None = None


async def _source_types(info: Info, rows: Sequence[ClusterSource]) -> list[ClusterSourceType]:
    context, actor = info.context, info.context.actor
    projects = await load_projects(context, [row.project_id for row in rows])
    sources = context[ClusterSources]
    handles = await sources.handles(actor, {row.settings.cluster_id for row in rows})
    accounts = await sources.accounts(actor, rows)
    return [
        ClusterSourceType.of(
            row,
            project=projects.get(row.project_id),
            cluster=handles.get(row.settings.cluster_id),
            service_account=accounts.get(row.settings.service_account_id),
        )
        for row in rows
    ]


_SOURCES = ResourceFields("cluster source", ClusterSources, ClusterSourceType, _source_types)


@strawberry.type
class ClusterSourceQuery:
    """Queries of cluster sources."""

    cluster_source = _SOURCES.get(ClusterSources.get)
    """A cluster source, by ID or name."""
    cluster_sources = _SOURCES.page(ClusterSources.page)
    """Cluster sources."""


@strawberry.type
class ClusterSourceMutation:
    """Mutations of cluster sources."""

    create_cluster_source = _SOURCES.create(ClusterSources.create, ClusterSourceAttributes)
    """Creates a cluster source. The caller needs all permissions of its service account."""
    update_cluster_source = _SOURCES.update(ClusterSources.update, ClusterSourceAttributes)
    """Updates, suspends or resumes a cluster source.

    Args:
        attributes: Fields to change. More than `suspended` and `intervalSeconds` needs all
            permissions of the service account.
    """
    delete_cluster_source = _SOURCES.action(ClusterSources.delete)
    """Deletes a cluster source. Its clusters stay registered."""
    sync_cluster_source = _SOURCES.action(ClusterSources.sync)
    """Reads the objects of a cluster source now."""
