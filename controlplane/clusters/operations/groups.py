"""Cluster groups, and freezing them."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from controlplane.access.operations.scopes import check_not_moved, check_project
from controlplane.authorization import Actor, Resource, ResourceKind, Verb, require_member
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.model.groups import (
    MAX_CHANGING_CLUSTERS,
    ClusterFreeze,
    ClusterGroup,
)
from controlplane.clusters.model.selectors import Selector
from controlplane.clusters.operations.freezes import frozen_clusters
from controlplane.clusters.ports import ClusterGroupStore, ClusterStore, GroupUsers
from controlplane.platform.batch import after_commit
from controlplane.platform.context import GENERATORS, RENDER_SERVICES, NamedOperations
from controlplane.platform.limits import check_count, check_range
from controlplane.platform.names import check_label, check_text
from controlplane.platform.parts import Columns, given_columns
from controlplane.platform.ports import Transaction
from controlplane.platform.references import found, reference
from controlplane.platform.retry import retry_operations
from controlplane.repositories.ports import RepositoryStore
from core.errors import Conflict, Invalid, NotFound

_MAX_CLUSTERS = 10_000
_MAX_TEXT_LENGTH = 1000


@dataclass(frozen=True, slots=True)
class ClusterGroupChange:
    """Changes to a cluster group. None leaves a field unchanged."""

    name: str | None = None
    """Unique name. Required on creation."""
    description: str | None = None
    """Free text. Limit: 1,000 characters."""
    project_id: str | None = None
    """ID of the project. Null: the installation."""
    tags: Mapping[str, str] | None = None
    """Tags that select clusters. Replaces the whole list."""
    cluster_ids: Sequence[str] | None = None
    """IDs of further clusters. Replaces the whole list. Limit: 10,000."""
    max_changing: int | None = None
    """Maximum number of clusters that pipelines change at the same time. Default: 0, no limit."""

    def columns(self) -> Columns:
        """The validated fields. Invalid: a value is not allowed."""
        columns = given_columns(self, "project_id")
        if self.name is not None:
            columns["name"] = check_label(self.name, "name")
        if self.description is not None:
            columns["description"] = _checked_text(self.description, "description")
        if self.tags is not None:
            columns["tags"] = dict(Selector(tags=self.tags).checked().tags)
        if self.cluster_ids is not None:
            check_count(len(self.cluster_ids), "clusterIds", _MAX_CLUSTERS)
            columns["cluster_ids"] = tuple(dict.fromkeys(self.cluster_ids))
        check_range(self.max_changing or 0, "maxChanging", 0, MAX_CHANGING_CLUSTERS)
        return columns


@retry_operations
class ClusterGroups(NamedOperations[ClusterGroup]):
    """Operations on cluster groups. A group needs the permissions for clusters of its project."""

    kind = ResourceKind.CLUSTER
    noun = "cluster group"
    port = ClusterGroupStore

    async def clusters(self, actor: Actor, id: str) -> list[Cluster]:
        """The clusters of a group that the actor may see, sorted by handle."""
        group = await self.get(actor, id)
        async with self._context.store.read() as tx:
            all_clusters = await tx[ClusterStore].all()
        members = [
            cluster
            for cluster in all_clusters
            if group.contains(cluster) and actor.may(Verb.READ, cluster.target)
        ]
        return sorted(members, key=lambda cluster: cluster.handle)

    async def freezes(self, actor: Actor, clusters: Collection[str]) -> dict[str, ClusterFreeze]:
        """The freezes of clusters, by id of the cluster.

        Readers of a cluster or of its services see the freeze, also without permission for the
        group. The caller passes only clusters of such rows.
        """
        require_member(actor)
        async with self._context.store.read() as tx:
            frozen = await frozen_clusters(tx, clusters)
        return {
            id: group.freeze(is_named=actor.may(Verb.READ, group.target))
            for id, group in frozen.items()
        }

    async def create(self, actor: Actor, change: ClusterGroupChange) -> ClusterGroup:
        now, project = self._context.clock.now(), change.project_id or None
        async with self._context.change(actor, "createClusterGroup") as tx:
            if project is not None:
                await check_project(tx, actor, project)
            tx.authorize(Verb.WRITE, Resource.of_project(ResourceKind.CLUSTER, project))
            columns = change.columns()
            if "name" not in columns:
                raise Invalid("is required", field="name")
            group = ClusterGroup(self._context.new_id(), columns.pop("name"), now, now, project)
            group = replace(group, **columns)
            await self._check_name(tx, group.name)
            await _check_clusters(tx, actor, set(group.cluster_ids))
            await tx[ClusterGroupStore].add(group)
            tx.audit(group.name, group.id)
        return group

    async def update(self, actor: Actor, id: str, change: ClusterGroupChange) -> ClusterGroup:
        """Changes a group or its members. Conflict: the group is frozen."""
        async with self._context.change(actor, "updateClusterGroup") as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            columns = change.columns()
            if before.frozen:
                raise Conflict(f"cluster group {before.name!r} is frozen: unfreeze it first")
            title = f"cluster group {before.name!r}"
            check_not_moved(title, before.project_id or "", change.project_id)
            group = replace(before, **columns, updated_at=self._context.clock.now())
            # Other clusters may be deleted by now, or invisible to the actor.
            await _check_clusters(tx, actor, set(group.cluster_ids) - set(before.cluster_ids))
            await tx[ClusterGroupStore].put(group)
            tx.audit(group.name, id, changed=sorted(columns))
            tx.publish(GENERATORS)
        return group

    async def delete(self, actor: Actor, id: str) -> ClusterGroup:
        """Deletes a group. Conflict: it is frozen, or generators or pipelines select by it."""
        async with self._context.change(actor, "deleteClusterGroup") as tx:
            group = await self._find(tx, id)
            tx.authorize(Verb.WRITE, group.target)
            if group.frozen:
                raise Conflict(f"cluster group {group.name!r} is frozen: unfreeze it first")
            if user := await tx[GroupUsers].first_user(id):
                raise Conflict(f"{user} selects clusters by this group")
            await tx[ClusterGroupStore].remove(id)
            tx.audit(group.name, id)
        return group

    async def freeze(self, actor: Actor, id: str, reason: str) -> ClusterGroup:
        """Freezes a group: services of its clusters do not change until it is unfrozen."""
        now, user = self._context.clock.now(), actor.shown_name
        return await self._set_freeze(
            actor,
            id,
            "freezeClusterGroup",
            frozen=True,
            reason=reason,
            frozen_by=user,
            frozen_at=now,
        )

    async def unfreeze(self, actor: Actor, id: str) -> ClusterGroup:
        """Unfreezes a group and applies the pending changes."""
        group = await self._set_freeze(
            actor, id, "unfreezeClusterGroup", frozen=False, reason="", frozen_by="", frozen_at=None
        )
        async with self._context.store.read() as tx:
            repositories = await tx[RepositoryStore].all()
        after_commit(partial(self._apply_pending, [repository.id for repository in repositories]))
        return group

    def _apply_pending(self, repository_ids: Sequence[str]) -> None:
        self._context.bus.publish(GENERATORS)
        for id in repository_ids:
            self._context.bus.publish(RENDER_SERVICES, f"{id}/")

    async def _set_freeze(
        self, actor: Actor, id: str, action: str, **columns: object
    ) -> ClusterGroup:
        async with self._context.change(actor, action) as tx:
            before = await self._find(tx, id)
            tx.authorize(Verb.WRITE, before.target)
            group = replace(before, **columns, updated_at=self._context.clock.now())
            group = replace(group, reason=_checked_text(group.reason, "reason"))
            await tx[ClusterGroupStore].put(group)
            tx.audit(group.name, id, reason=group.reason)
        return group


async def find_cluster_group(tx: Transaction, id: str) -> ClusterGroup:
    """The group with this id. NotFound: it does not exist."""
    return found(await tx[ClusterGroupStore].get(id), ResourceKind.CLUSTER)


async def _check_clusters(tx: Transaction, actor: Actor, added: set[str]) -> None:
    """NotFound: a cluster does not exist, or the actor may not see it."""
    clusters = await tx[ClusterStore].by_ids(added) if added else []
    readable = {cluster.id for cluster in clusters if actor.may(Verb.READ, cluster.target)}
    for id in sorted(added - readable):
        with reference("clusterIds", id):
            raise NotFound(kind=ResourceKind.CLUSTER)


def _checked_text(value: str, field: str) -> str:
    return check_text(value, field, _MAX_TEXT_LENGTH) if value else ""
