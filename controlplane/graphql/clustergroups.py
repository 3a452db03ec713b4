"""Cluster groups in the API."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.domain.clustergroups import ClusterGroup as GroupRow
from controlplane.graphql import relay
from controlplane.graphql.access import ProjectType
from controlplane.graphql.clusters import ClusterType, Tag
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import projects_of
from controlplane.graphql.inputs import TagAttributes
from controlplane.graphql.selections import selected_fields
from controlplane.graphql.services import cluster_types
from controlplane.usecases.clustergroups import ClusterGroupChange


@strawberry.type
class ClusterGroupType:
    """A set of clusters: the listed ones, and all clusters with every given tag."""

    id: strawberry.ID
    name: str
    """Unique name."""
    description: str | None
    """Free text."""
    tags: list[Tag]
    """Tags that select clusters. A cluster must have all of them."""
    cluster_ids: list[strawberry.ID]
    """IDs of clusters that belong to the group regardless of tags."""
    project: ProjectType | None
    """Project of the group. Null for a group of the installation."""
    frozen: bool
    """True while a freeze blocks all changes to services in the group."""
    frozen_reason: str | None
    """Reason of the freeze."""
    frozen_by: str | None
    """E-mail address of the user who froze the group."""
    frozen_at: datetime | None
    """Start of the freeze."""
    max_changing: int
    """Maximum number of clusters that pipelines change at the same time. 0 means no limit."""
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: GroupRow, project: ProjectType | None = None) -> "ClusterGroupType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description or None,
            tags=[Tag(name=name, value=value) for name, value in row.tags.items()],
            cluster_ids=[strawberry.ID(cluster_id) for cluster_id in row.cluster_ids],
            project=project,
            frozen=row.frozen,
            frozen_reason=row.reason or None,
            frozen_by=row.frozen_by or None,
            frozen_at=row.frozen_at,
            max_changing=row.max_changing,
            inserted_at=row.inserted_at,
            updated_at=row.updated_at,
        )


@strawberry.input
class ClusterGroupAttributes:
    """Fields of a cluster group. A field that is null or absent stays as it is."""

    name: str | None = None
    """Unique name. Required on creation."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    project_id: strawberry.ID | None = None
    """ID of the project. Null: the installation."""
    tags: list[TagAttributes] | None = None
    """Tags that select clusters. Replaces the whole list."""
    cluster_ids: list[strawberry.ID] | None = None
    """IDs of further clusters. Replaces the whole list. Limit: 10,000."""
    max_changing: int | None = None
    """Maximum number of clusters that pipelines change at the same time. Default: 0, no limit."""

    def change(self) -> ClusterGroupChange:
        return ClusterGroupChange(
            self.name,
            self.description,
            self.project_id or None,
            None if self.tags is None else {tag.name: tag.value for tag in self.tags},
            self.cluster_ids,
            self.max_changing,
        )


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
        row = await info.context.verbs.cluster_groups.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field
    async def cluster_groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ClusterGroupType]:
        """Cluster groups."""
        asked = relay.page_query(first, after, q)
        page = await info.context.verbs.cluster_groups.page(info.context.actor, asked)
        return await relay.connection_of_many(info.context, page, asked, _types)

    @strawberry.field
    async def cluster_group_clusters(self, info: Info, id: strawberry.ID) -> list[ClusterType]:
        """Current clusters of a group, sorted by handle.

        Args:
            id: ID of the cluster group.
        """
        rows = await info.context.verbs.cluster_groups.clusters(info.context.actor, id)
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
        groups = info.context.verbs.cluster_groups
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
        groups = info.context.verbs.cluster_groups
        row = await groups.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def delete_cluster_group(self, info: Info, id: strawberry.ID) -> ClusterGroupType | None:
        """Deletes a cluster group that no selector uses.

        Args:
            id: ID of the cluster group.
        """
        row = await info.context.verbs.cluster_groups.delete(info.context.actor, id)
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
        groups = info.context.verbs.cluster_groups
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
        row = await info.context.verbs.cluster_groups.unfreeze(info.context.actor, id)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[GroupRow]) -> list[ClusterGroupType]:
    projects = await projects_of(context, [row.project_id for row in rows])
    return [ClusterGroupType.of(row, projects.get(row.project_id or "")) for row in rows]
