"""Cluster groups in the API."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.domain.clustergroups import ClusterGroup as GroupRow
from controlplane.graphql import relay
from controlplane.graphql.access import Project
from controlplane.graphql.clusters import Cluster, Tag
from controlplane.graphql.context import Context, Info
from controlplane.graphql.definitions import projects_of
from controlplane.graphql.inputs import TagAttributes
from controlplane.graphql.selections import selected
from controlplane.graphql.services import cluster_types
from controlplane.usecases.clustergroups import GroupChange


@strawberry.type
class ClusterGroup:
    """Clusters that belong together: those named, and all that have all of the tags. While it is
    frozen nothing of its clusters' services changes. Pipelines change at most `maxChanging` of its
    clusters at once, 0: any number."""

    id: strawberry.ID
    name: str
    description: str | None
    tags: list[Tag]
    cluster_ids: list[strawberry.ID]
    project: Project | None
    frozen: bool
    frozen_reason: str | None
    frozen_by: str | None
    frozen_at: datetime | None
    max_changing: int
    inserted_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, row: GroupRow, project: Project | None = None) -> "ClusterGroup":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            description=row.description or None,
            tags=[Tag(name=name, value=value) for name, value in row.tags.items()],
            cluster_ids=[strawberry.ID(one) for one in row.cluster_ids],
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
    """What is left out stays; each list is given as a whole."""

    name: str | None = None
    description: str | None = None
    project_id: strawberry.ID | None = None
    tags: list[TagAttributes] | None = None
    cluster_ids: list[strawberry.ID] | None = None
    max_changing: int | None = None

    def change(self) -> GroupChange:
        return GroupChange(
            self.name,
            self.description,
            self.project_id or None,
            None if self.tags is None else {one.name: one.value for one in self.tags},
            self.cluster_ids,
            self.max_changing,
        )


@strawberry.type
class ClusterGroupQuery:
    @strawberry.field(description="A cluster group by id or name.")
    async def cluster_group(
        self, info: Info, id: strawberry.ID | None = None, name: str | None = None
    ) -> ClusterGroup | None:
        row = await info.context.verbs.cluster_groups.get(info.context.actor, id, name)
        return (await _types(info.context, [row]))[0]

    @strawberry.field(description="Cluster groups; `q` is looked for in names.")
    async def cluster_groups(
        self,
        info: Info,
        first: int | None = None,
        after: str | None = None,
        q: str | None = None,
    ) -> relay.Connection[ClusterGroup]:
        asked = relay.query(first, after, q)
        page = await info.context.verbs.cluster_groups.page(info.context.actor, asked)
        return await relay.filled(info.context, page, asked, _types)

    @strawberry.field(description="The clusters in a group now, by handle.")
    async def cluster_group_clusters(self, info: Info, id: strawberry.ID) -> list[Cluster]:
        rows = await info.context.verbs.cluster_groups.clusters(info.context.actor, id)
        return list((await cluster_types(info.context, rows, selected(info))).values())


@strawberry.type
class ClusterGroupMutation:
    @strawberry.mutation
    async def create_cluster_group(
        self, info: Info, attributes: ClusterGroupAttributes
    ) -> ClusterGroup | None:
        groups = info.context.verbs.cluster_groups
        row = await groups.create(info.context.actor, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation
    async def update_cluster_group(
        self, info: Info, id: strawberry.ID, attributes: ClusterGroupAttributes
    ) -> ClusterGroup | None:
        groups = info.context.verbs.cluster_groups
        row = await groups.update(info.context.actor, id, attributes.change())
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Delete a group that nothing chooses clusters by.")
    async def delete_cluster_group(self, info: Info, id: strawberry.ID) -> ClusterGroup | None:
        row = await info.context.verbs.cluster_groups.delete(info.context.actor, id)
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="Let nothing of its clusters' services change until unfrozen.")
    async def freeze_cluster_group(
        self, info: Info, id: strawberry.ID, reason: str | None = None
    ) -> ClusterGroup | None:
        groups = info.context.verbs.cluster_groups
        row = await groups.freeze(info.context.actor, id, reason or "")
        return (await _types(info.context, [row]))[0]

    @strawberry.mutation(description="End a freeze; what has waited is done now.")
    async def unfreeze_cluster_group(self, info: Info, id: strawberry.ID) -> ClusterGroup | None:
        row = await info.context.verbs.cluster_groups.thaw(info.context.actor, id)
        return (await _types(info.context, [row]))[0]


async def _types(context: Context, rows: Sequence[GroupRow]) -> list[ClusterGroup]:
    projects = await projects_of(context, [one.project_id for one in rows])
    return [ClusterGroup.of(row, projects.get(row.project_id or "")) for row in rows]
