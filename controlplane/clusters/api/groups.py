"""Cluster groups in the API."""

from collections.abc import Sequence

import strawberry

from controlplane.access.api.loading import projects_of
from controlplane.access.api.types import ProjectType
from controlplane.clusters.api.clusters import ClusterType, Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.loading import cluster_types
from controlplane.clusters.model.groups import ClusterGroup as GroupRow
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.platform.graphql import relay
from controlplane.platform.graphql.context import Context, Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.selections import selected_fields


@output(
    GroupRow,
    rename={"frozen_reason": "reason"},
    hide={"project_id"},
    nullable={"description", "frozen_reason", "frozen_by"},
)
class ClusterGroupType(Output[GroupRow]):
    """A set of clusters: the listed ones, and all clusters with every given tag."""

    tags: list[Tag] = computed(tags_of)
    project: ProjectType | None
    """Project of the group. Null for a group of the installation."""


@draft(ClusterGroupChange)
class ClusterGroupAttributes(Draft[ClusterGroupChange]):
    """Fields of a cluster group. A field that is null or absent stays as it is."""

    tags: list[TagAttributes] | None = None


@strawberry.type
class ClusterGroupQuery:
    @strawberry.field
    async def cluster_group(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ClusterGroupType | None:
        """A cluster group, by ID or name.

        Args:
            id: ID of the cluster group.
        """
        row = await info.context[ClusterGroups].get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def cluster_groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
        labels: str | None = None,
    ) -> relay.Connection[ClusterGroupType]:
        """Cluster groups."""
        asked = relay.page_query(first, after, q, labels=labels)
        page = await info.context[ClusterGroups].page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def cluster_group_clusters(self, info: Info, id: strawberry.ID) -> list[ClusterType]:
        """Current clusters of a group, sorted by handle.

        Args:
            id: ID of the cluster group.
        """
        rows = await info.context[ClusterGroups].clusters(info.context.actor, id)
        return list((await cluster_types(info.context, rows, selected_fields(info))).values())


@strawberry.type
class ClusterGroupMutation:
    @strawberry.mutation
    async def create_cluster_group(
        self, info: Info, attributes: ClusterGroupAttributes
    ) -> ClusterGroupType | None:
        """Creates a cluster group.

        Args:
            attributes: Fields of the cluster group.
        """
        groups = info.context[ClusterGroups]
        row = await groups.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def update_cluster_group(
        self, info: Info, id: strawberry.ID, attributes: ClusterGroupAttributes
    ) -> ClusterGroupType | None:
        """Updates a cluster group.

        Args:
            id: ID of the cluster group.
            attributes: Fields to change.
        """
        groups = info.context[ClusterGroups]
        row = await groups.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_cluster_group(self, info: Info, id: strawberry.ID) -> ClusterGroupType | None:
        """Deletes a cluster group that no selector uses.

        Args:
            id: ID of the cluster group.
        """
        row = await info.context[ClusterGroups].delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def freeze_cluster_group(
        self, info: Info, id: strawberry.ID, reason: str | None = None
    ) -> ClusterGroupType | None:
        """Blocks all changes to services in the clusters of a group.

        Args:
            id: ID of the cluster group.
            reason: Reason shown to users. Limit: 1,000 characters.
        """
        groups = info.context[ClusterGroups]
        row = await groups.freeze(info.context.actor, id, reason or "")
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def unfreeze_cluster_group(
        self, info: Info, id: strawberry.ID
    ) -> ClusterGroupType | None:
        """Ends a freeze. Delayed changes start now.

        Args:
            id: ID of the cluster group.
        """
        row = await info.context[ClusterGroups].unfreeze(info.context.actor, id)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[GroupRow]) -> list[ClusterGroupType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [ClusterGroupType.of(row, project=projects.get(row.project_id or "")) for row in rows]
