"""Cluster groups in the API."""

import strawberry

from controlplane.access.api.loading import with_projects
from controlplane.access.api.types import ProjectType
from controlplane.clusters.api.clusters import ClusterType, Tag, tags_of
from controlplane.clusters.api.inputs import TagAttributes
from controlplane.clusters.api.loading import clusters_in_list
from controlplane.clusters.model.groups import ClusterGroup as GroupRow
from controlplane.clusters.operations.groups import ClusterGroupChange, ClusterGroups
from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Draft, Output, computed, draft, output
from controlplane.platform.graphql.resource_fields import ResourceFields


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


_GROUPS = ResourceFields(
    "cluster group", ClusterGroups, ClusterGroupType, with_projects(ClusterGroupType)
)


@strawberry.type
class ClusterGroupQuery:
    cluster_group = _GROUPS.get(ClusterGroups.get)
    """A cluster group, by ID or name."""
    cluster_groups = _GROUPS.page(ClusterGroups.page)
    """Cluster groups."""
    cluster_group_clusters = _GROUPS.related(ClusterGroups.clusters, ClusterType, clusters_in_list)
    """Current clusters of a group, sorted by handle."""


@strawberry.type
class ClusterGroupMutation:
    create_cluster_group = _GROUPS.create(ClusterGroups.create, ClusterGroupAttributes)
    """Creates a cluster group."""
    update_cluster_group = _GROUPS.update(ClusterGroups.update, ClusterGroupAttributes)
    """Updates a cluster group."""
    delete_cluster_group = _GROUPS.action(ClusterGroups.delete)
    """Deletes a cluster group that no selector uses."""

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
        return await _GROUPS.one(info, row)

    unfreeze_cluster_group = _GROUPS.action(ClusterGroups.unfreeze)
    """Ends a freeze. Delayed changes start now."""
