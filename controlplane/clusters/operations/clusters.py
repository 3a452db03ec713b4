"""Registers and removes clusters."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime

from controlplane.access.model.users import Token
from controlplane.access.operations.binding_subjects import RoleSubjects, change_subjects
from controlplane.access.operations.scopes import check_not_moved, project_for
from controlplane.access.operations.tag_changes import authorize_tags
from controlplane.access.operations.tokens import mint, revoke_cluster_tokens
from controlplane.access.ports import TokenStore
from controlplane.authorization import Actor, ResourceKind, Verb, require, require_member
from controlplane.clusters.model.cluster import SILENT_AFTER, Cluster, ClusterHealth
from controlplane.clusters.operations.freezes import check_not_frozen
from controlplane.clusters.ports import ClusterContents, ClusterStore
from controlplane.platform.conflicts import check_unchanged, name_conflict
from controlplane.platform.context import (
    CLUSTER,
    DESIRED_STATE,
    RENDER_SERVICES,
    REVOKED,
    Change,
    ContextOperations,
    OperationContext,
)
from controlplane.platform.limits import check_count
from controlplane.platform.names import check_label, check_text, handle_from
from controlplane.platform.parts import Columns
from controlplane.platform.ports import Page, PageQuery, Transaction
from controlplane.platform.references import found
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Invalid, NotFound
from core.identity import ClusterId
from core.json_object import JsonMapping
from core.spec.sync import Removal

_MAX_TAGS = 64
_MAX_UNUSED_TOKENS = 8


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """Changes to a cluster and its role bindings. None leaves a field unchanged."""

    name: str | None = None
    """Display name."""
    handle: str | None = None
    """Unique short name. Default for new clusters: derived from `name`."""
    protect: bool | None = None
    """True refuses deletion. Default: false."""
    tags: Mapping[str, str] | None = None
    """Tags, used by selectors. Replaces the whole list. Limit: 64."""
    metadata: JsonMapping | None = None
    """Free-form metadata, a JSON object. Replaces the whole object."""
    project_id: str | None = None
    """ID of the project. Default: the default project."""
    subjects: RoleSubjects = field(default_factory=dict)
    """Users and groups with a role on the cluster."""

    def checked(self) -> Columns:
        """The columns to write. Invalid: a value is not allowed."""
        columns: Columns = {}
        if self.name is not None:
            columns["name"] = check_text(self.name, "name")
        if self.handle:
            columns["handle"] = check_label(self.handle, "handle")
        if self.protect is not None:
            columns["protect"] = self.protect
        if self.tags is not None:
            columns["tags"] = check_tags(self.tags)
        if self.metadata is not None:
            columns["metadata"] = dict(self.metadata)
        return columns


@retry_operations
class Clusters(ContextOperations):
    """Operations on clusters."""

    async def page(
        self, actor: Actor, query: PageQuery, health: ClusterHealth | None = None
    ) -> Page[Cluster]:
        require_member(actor)
        query = replace(query, visible=actor.policy.visible(ResourceKind.CLUSTER))
        if health is not None:
            query = _of_health(query, health, self._context.clock.now() - SILENT_AFTER)
        async with self._context.store.read() as tx:
            return await tx[ClusterStore].page(query)

    async def get(self, actor: Actor, id: str | None, handle: str | None = None) -> Cluster:
        """Finds a cluster by id or handle.

        NotFound: it does not exist, or the actor may not see it.
        """
        async with self._context.read(actor) as tx:
            cluster = await find_cluster(tx, id, handle)
        require(actor, Verb.READ, cluster.target)
        return cluster

    async def create(self, actor: Actor, change: ClusterChange) -> tuple[Cluster, str]:
        """Registers a cluster, and returns it with its deploy token, which is shown only once."""
        async with self._context.change(actor, "createCluster") as tx:
            cluster = await register_cluster(tx, self._context, change)
            _, secret = await self._mint_token(tx, cluster)
            await change_subjects(tx, cluster.target, change.subjects, is_new=True)
        return cluster, secret

    async def update(
        self,
        actor: Actor,
        id: str,
        change: ClusterChange,
        *,
        unchanged_since: datetime | None = None,
    ) -> Cluster:
        """Changes a cluster. Services that use a changed parameter are rendered again."""
        async with self._context.change(actor, "updateCluster") as tx:
            cluster = await find_cluster(tx, id)
            tx.authorize(Verb.WRITE, cluster.target)
            columns = change.checked()
            check_not_moved(f"cluster {cluster.handle!r}", cluster.project_id, change.project_id)
            check_unchanged(cluster, unchanged_since, f"cluster {cluster.handle!r}")
            if columns.keys() - {"protect"}:
                await check_not_frozen(tx, id)
            changed = replace(
                cluster,
                **columns,
                project_given=cluster.project_given or bool(change.project_id),
                updated_at=self._context.clock.now(),
            )
            await authorize_tags(tx, cluster.target, cluster.tags, changed.tags)
            await tx[ClusterStore].put(changed)
            repositories = await _mark_for_render(tx, cluster, changed)
            tx.audit(cluster.handle, id, changed=sorted(columns))
            await change_subjects(tx, changed.target, change.subjects)
            tx.publish(CLUSTER, id)
            for repository in repositories:
                tx.publish(RENDER_SERVICES, f"{repository}/")
        return changed

    async def delete(self, actor: Actor, id: str) -> Cluster:
        """Deletes a cluster. Its agent, if any, first deletes the objects of all services."""
        return await self._remove(actor, id, Removal.CASCADE, "deleteCluster")

    async def detach(self, actor: Actor, id: str) -> Cluster:
        """Removes a cluster from Towline and leaves its objects unchanged."""
        return await self._remove(actor, id, Removal.ORPHAN, "detachCluster")

    async def rotate_token(self, actor: Actor, id: str) -> tuple[Cluster, str]:
        """Creates a new deploy token and revokes all others."""
        async with self._context.change(actor, "rotateClusterToken") as tx:
            cluster = await find_cluster(tx, id)
            tx.authorize(Verb.WRITE, cluster.target)
            for token_id in await revoke_cluster_tokens(tx, id, self._context.clock.now()):
                tx.publish(REVOKED, token_id)
            _, secret = await self._mint_token(tx, cluster)
            tx.audit(cluster.handle, id)
        return cluster, secret

    async def deploy_token(self, actor: Actor, id: str) -> str:
        """Creates another deploy token; earlier ones stay valid. Needs write access to the cluster.

        The store keeps only hashes, so each call creates a token. The newest unused tokens stay
        valid; older unused ones are revoked.
        """
        now = self._context.clock.now()
        async with self._context.change(actor, "readDeployToken") as tx:
            cluster = await find_cluster(tx, id)
            tx.authorize(Verb.WRITE, cluster.target)
            unused = await tx[TokenStore].unused_of_cluster(id)
            for token in unused[: max(0, len(unused) - _MAX_UNUSED_TOKENS + 1)]:
                await tx[TokenStore].revoke(token.id, now)
                tx.publish(REVOKED, token.id)
            row, secret = await self._mint_token(tx, cluster)
            tx.audit(cluster.handle, id, token=row.id)
        return secret

    async def _mint_token(self, tx: Transaction, cluster: Cluster) -> tuple[Token, str]:
        return await mint(tx, self._context, f"agent of {cluster.handle}", cluster_id=cluster.id)

    async def _remove(self, actor: Actor, id: str, removal: Removal, action: str) -> Cluster:
        now = self._context.clock.now()
        async with self._context.change(actor, action) as tx:
            cluster = await find_cluster(tx, id)
            tx.authorize(Verb.WRITE, cluster.target)
            await check_not_frozen(tx, id)
            if cluster.protect and removal is Removal.CASCADE:
                raise Conflict(
                    f"cluster {cluster.handle!r} is protected against deletion: "
                    "set protect to false first"
                )
            contents = tx[ClusterContents]
            await contents.begin_removal(self._context, actor, cluster, removal)
            await tx[ClusterStore].begin_removal(id, now)
            revoked = await contents.delete_cluster_if_empty(
                id, now, forced=removal is Removal.ORPHAN
            )
            tx.audit(cluster.handle, id)
            tx.publish(CLUSTER, id)
            tx.publish(DESIRED_STATE, f"{id}/")
            for token_id in revoked:
                tx.publish(REVOKED, token_id)
        return replace(cluster, ending_at=now)


async def register_cluster(tx: Change, context: OperationContext, change: ClusterChange) -> Cluster:
    """Adds a cluster without a deploy token. Conflict: its handle is already used."""
    project = await project_for(tx, ResourceKind.CLUSTER, change.project_id)
    columns = change.checked()
    if "name" not in columns:
        raise Invalid("is required", field="name")
    if "handle" not in columns:
        columns["handle"] = check_label(handle_from(columns["name"]), "handle")
    now = context.clock.now()
    cluster = Cluster(
        ClusterId(context.new_id()),
        inserted_at=now,
        updated_at=now,
        project_id=project,
        project_given=bool(change.project_id),
        **columns,
    )
    if (existing := await tx[ClusterStore].by_handle(cluster.handle)) is not None:
        message = f"a cluster with the handle {cluster.handle!r} already exists"
        raise name_conflict(tx.actor, existing, message)
    await authorize_tags(tx, cluster.target, None, cluster.tags)
    await tx[ClusterStore].add(cluster)
    tx.audit(cluster.handle, cluster.id)
    tx.publish(CLUSTER, cluster.id)
    return cluster


async def find_cluster(tx: Transaction, id: str | None, handle: str | None = None) -> Cluster:
    """Finds a cluster by id or handle. NotFound: it does not exist."""
    cluster = None
    if id:
        cluster = await tx[ClusterStore].get(id)
    elif handle:
        cluster = await tx[ClusterStore].by_handle(handle)
    if cluster is None:
        raise NotFound(kind=ResourceKind.CLUSTER)
    return cluster


async def peek_cluster(tx: Transaction, id: str) -> Cluster:
    """Reads a cluster without a lock, so that transactions on its services do not wait for it.

    NotFound: it does not exist.
    """
    return found(await tx[ClusterStore].peek(id), ResourceKind.CLUSTER)


async def _mark_for_render(tx: Transaction, before: Cluster, after: Cluster) -> set[str]:
    """Marks services whose cluster parameters changed; returns their repositories' ids."""
    if (before.name, before.handle, before.tags, before.metadata) == (
        after.name,
        after.handle,
        after.tags,
        after.metadata,
    ):
        return set()
    return await tx[ClusterContents].mark_for_render(before.id)


def _of_health(query: PageQuery, health: ClusterHealth, silent: datetime) -> PageQuery:
    """Limits a query to clusters with this health, by the time their agents were last seen."""
    if health is ClusterHealth.NEVER:
        return replace(query, equals={**query.equals, "pinged_at": None})
    if health is ClusterHealth.SILENT:
        return replace(query, not_seen_since=silent)
    return replace(query, seen_since=silent)


def check_tags(tags: Mapping[str, str]) -> dict[str, str]:
    """Returns tags. Raises Invalid if one is not allowed."""
    check_count(len(tags), "tags", _MAX_TAGS)
    return {check_text(k, "tags.name", 63): check_text(v, "tags.value") for k, v in tags.items()}
