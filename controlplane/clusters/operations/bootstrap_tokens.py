"""Bootstrap tokens, and the clusters that join with them."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from controlplane.access.operations.auth_throttle import AuthThrottle
from controlplane.access.operations.scopes import actor_of_user, project_for
from controlplane.access.operations.tag_changes import authorize_tags, permitted_bindings
from controlplane.access.operations.tokens import latest_expiry, mint, revoke_cluster_tokens
from controlplane.access.ports import UserStore
from controlplane.authorization import (
    Actor,
    ActorKind,
    Resource,
    ResourceKind,
    Verb,
    require,
)
from controlplane.clusters.model.bootstrap_tokens import BootstrapToken, JoinedCluster, JoinRequest
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.clusters import check_tags
from controlplane.clusters.ports import BootstrapTokenStore, ClusterStore
from controlplane.platform.audit_entry import AuditEntry
from controlplane.platform.context import ACCESS, CLUSTER, REVOKED, Change, OperationContext
from controlplane.platform.limits import check_range
from controlplane.platform.names import check_label, check_text, handle_from
from controlplane.platform.ports import AuditTrail, Transaction
from controlplane.platform.retry import retry_operations
from core.errors import Conflict, Forbidden, Invalid, LimitExceeded, NotFound, Unauthenticated
from core.identity import ClusterId, TokenKind, new_token, token_hash, token_kind

MAX_LIFE = timedelta(days=366)
MAX_CLUSTERS = 10_000
MAX_TOKENS = 500
"""Maximum number of tokens of a project, so that one project takes no tokens from others."""
RETENTION = timedelta(days=30)
"""Time for which ended tokens stay in lists."""
_UID = re.compile(r"[0-9a-zA-Z-]{1,64}")
_UID_DIGITS = 8
_MAX_HANDLE = 63
_INVALID_TOKEN = "invalid bootstrap token: mistyped, deleted, or issued by another installation"


@dataclass(frozen=True, slots=True)
class BootstrapTokenChange:
    """A new bootstrap token."""

    name: str
    """Display name. Limit: 255 characters."""
    expires_in_s: int = 86_400
    """Seconds until the token expires. Default: 86,400, which is a day. Limit: 366 days."""
    max_uses: int = 1
    """Maximum number of clusters. Default: 1. Limit: 10,000."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the new clusters. Limit: 64."""
    adopts: bool = False
    """True lets an agent take over a registered cluster of its name to which no agent has
    connected. Default: false."""
    project_id: str | None = None
    """ID of the project of the new clusters. Default: the default project."""

    @property
    def life(self) -> timedelta:
        """Returns the time until the token expires. Raises Invalid."""
        check_range(self.expires_in_s, "expiresInSeconds", 1, int(MAX_LIFE.total_seconds()), "s")
        return timedelta(seconds=self.expires_in_s)


@retry_operations
class BootstrapTokens:
    """Operations on bootstrap tokens."""

    def __init__(self, context: OperationContext) -> None:
        self._context = context
        self._throttle = AuthThrottle(context.clock)

    async def all(self, actor: Actor) -> list[BootstrapToken]:
        """The tokens for projects in which the caller may register clusters, newest first."""
        async with self._context.read(actor) as tx:
            rows = await tx[BootstrapTokenStore].all()
        return sorted(
            (row for row in rows if actor.may(Verb.WRITE, row.target)),
            key=lambda row: row.id,
            reverse=True,
        )

    async def get(self, actor: Actor, id: str) -> BootstrapToken:
        """A token without its secret. NotFound: it does not exist, or the caller may not use it."""
        async with self._context.read(actor) as tx:
            return await _find_usable(tx, actor, id)

    async def clusters(self, actor: Actor, id: str) -> list[Cluster]:
        """The clusters that joined with a token and that the caller may read, oldest first."""
        async with self._context.read(actor) as tx:
            await _find_usable(tx, actor, id)
            rows = await tx[ClusterStore].joined_with(id)
        return [row for row in rows if actor.may(Verb.READ, row.target)]

    async def create(
        self, actor: Actor, change: BootstrapTokenChange
    ) -> tuple[BootstrapToken, str]:
        """Creates a token; returns its row and the secret, which is shown only once.

        The token ends with the credential of the caller, unless the caller has signed in.
        """
        now, secret = self._context.clock.now(), new_token(TokenKind.BOOTSTRAP)
        async with self._context.change(actor, "createBootstrapToken") as tx:
            project = await project_for(tx, ResourceKind.CLUSTER, change.project_id)
            check_range(change.max_uses, "maxUses", 1, MAX_CLUSTERS)
            row = BootstrapToken(
                self._context.new_id(),
                check_text(change.name, "name"),
                token_hash(secret),
                actor.id,
                now,
                now + change.life,
                change.max_uses,
                project_id=project,
                tags=check_tags(change.tags),
                adopts=change.adopts,
            )
            await authorize_tags(tx, Resource.within(ResourceKind.CLUSTER, project), None, row.tags)
            if (end := await latest_expiry(tx, actor)) is not None:
                row = replace(row, expires_at=min(row.expires_at, end))
            store = tx[BootstrapTokenStore]
            stored = await store.all()
            if ended := [old.id for old in stored if old.expires_at < now - RETENTION]:
                await store.remove_each(ended)
            # Tokens for one cluster come from cluster sources, which have limits of their own.
            others = (old for old in stored if old.project_id == project and old.id not in ended)
            if sum(old.cluster_id is None for old in others) >= MAX_TOKENS:
                raise LimitExceeded(
                    f"the project has {MAX_TOKENS} bootstrap tokens: use one for several clusters"
                )
            await store.add(row)
            tx.audit(row.name, row.id, expires_at=f"{row.expires_at:%FT%TZ}", uses=row.max_uses)
        return row, secret

    async def revoke(self, actor: Actor, id: str) -> BootstrapToken:
        """Revokes a token. Clusters that joined with it stay registered."""
        async with self._context.change(actor, "revokeBootstrapToken") as tx:
            row = await tx[BootstrapTokenStore].get(id)
            if row is None:
                raise NotFound("bootstrap token does not exist")
            tx.authorize(Verb.WRITE, row.target)
            if row.revoked_at is None:
                row = replace(row, revoked_at=self._context.clock.now())
                await tx[BootstrapTokenStore].put(row)
            tx.audit(row.name, id)
        return row

    async def authenticate(self, secret: str, source: str = "") -> None:
        """Checks a token before the request of its caller is read.

        Unauthenticated: the bootstrap token is not valid. LimitExceeded: too many wrong tokens.
        """
        if token_kind(secret) is not TokenKind.BOOTSTRAP:
            raise Unauthenticated(_INVALID_TOKEN)
        key, now = token_hash(secret), self._context.clock.now()
        with self._throttle.throttled(key, source):
            async with self._context.store.read() as tx:
                await _find_valid(tx, key, now)

    async def join(self, secret: str, request: JoinRequest, source: str = "") -> JoinedCluster:
        """Registers the cluster of an agent, and gives the agent a deploy token.

        A cluster that asks again before its agent has connected gets another deploy token.
        Unauthenticated: the bootstrap token is not valid. LimitExceeded: too many wrong tokens.
        Conflict: the cluster has joined already.
        """
        if token_kind(secret) is not TokenKind.BOOTSTRAP:
            raise Unauthenticated(_INVALID_TOKEN)
        if not _UID.fullmatch(request.kubernetes_uid):
            raise Invalid("is not the UID of a namespace", field="kubernetesUid")
        if request.name:
            check_text(request.name, "name")
        key = token_hash(secret)
        with self._throttle.throttled(key, source):
            return await self._join_cluster(key, request, source)

    async def _join_cluster(self, key: str, request: JoinRequest, source: str) -> JoinedCluster:
        now = self._context.clock.now()
        revoked: list[str] = []
        affected_users: list[str] = []
        async with self._context.store.write() as tx:
            token = await _find_valid(tx, key, now)
            creator = await self._check_creator(tx, token)
            cluster = await tx[ClusterStore].of_uid(request.kubernetes_uid)
            adopted = None
            if cluster is None:
                token.check_uses()
                adopted = await _find_adoptable(tx, token, request)
                if adopted is None:
                    affected_users = await _users_of_tags(tx, token, creator, now)
            if request.dry_run:
                return JoinedCluster("", "", "")
            if cluster is None:
                cluster = await self._register(tx, token, request, adopted)
                used = replace(token, uses=token.uses + 1, last_used_at=now)
                await tx[BootstrapTokenStore].put(used)
            else:
                _check_not_connected(cluster, token)
            revoked = await revoke_cluster_tokens(tx, cluster.id, now)
            name = f"agent of {cluster.handle}"
            _, secret = await mint(tx, self._context, name, cluster_id=cluster.id)
            await tx[AuditTrail].append([self._join_entry(token, cluster, source)])
        self._context.bus.publish(CLUSTER, cluster.id)
        for id in revoked:
            self._context.bus.publish(REVOKED, id)
        for user_key in dict.fromkeys(affected_users):
            self._context.bus.publish(ACCESS, user_key)
        return JoinedCluster(cluster.id, cluster.handle, secret)

    async def _check_creator(self, tx: Transaction, token: BootstrapToken) -> Actor:
        """Returns the token's creator. Unauthenticated: it may not register clusters any more."""
        user = await tx[UserStore].get(token.creator_id)
        if user is not None and user.disabled_at is None:
            actor = await actor_of_user(tx, user, self._context.clock.now())
            if actor.may(Verb.WRITE, token.target):
                return actor
        raise Unauthenticated(
            f"the creator of bootstrap token {token.name!r} may not register clusters in its "
            "project any more: create a new token"
        )

    async def _register(
        self, tx: Transaction, token: BootstrapToken, request: JoinRequest, adopted: Cluster | None
    ) -> Cluster:
        """Registers a cluster under the wanted name, or under that name with a part of its UID.

        The agent gets `adopted` instead, if it is given.
        """
        now, clusters = self._context.clock.now(), tx[ClusterStore]
        if adopted is not None:
            joined = replace(
                adopted,
                kubernetes_uid=request.kubernetes_uid,
                bootstrap_token_id=token.id,
                updated_at=now,
            )
            await clusters.put(joined)
            return joined
        handle = _requested_handle(request)
        if await clusters.by_handle(handle) is not None:
            digits = _uid_digits(request)
            handle = f"{handle[: _MAX_HANDLE - _UID_DIGITS - 1].rstrip('-')}-{digits}"
            if await clusters.by_handle(handle) is not None:
                raise Conflict(f"clusters with the handle {handle!r} and without its end exist")
        cluster = Cluster(
            ClusterId(self._context.new_id()),
            handle,
            request.name or handle,
            now,
            now,
            tags=token.tags,
            project_id=token.project_id,
            kubernetes_uid=request.kubernetes_uid,
            bootstrap_token_id=token.id,
        )
        await clusters.add(cluster)
        return cluster

    def _join_entry(self, token: BootstrapToken, cluster: Cluster, source: str) -> AuditEntry:
        name = f"bootstrap token {token.name}"
        actor = Actor(ActorKind.SYSTEM, id=token.id, name=name, source=source)
        entry = self._context.audit_entry(
            actor, "joinCluster", cluster.handle, cluster.id, uid=cluster.kubernetes_uid
        )
        return replace(entry, cluster_id=cluster.id, project_id=cluster.project_id)


async def issue_for_cluster(
    tx: Change, cluster: Cluster, life: timedelta
) -> tuple[BootstrapToken, str]:
    """Creates a token with which the agent of one registered cluster joins, once.

    The caller authorizes and audits it. The token ends with the permissions of the actor.
    """
    secret, now = new_token(TokenKind.BOOTSTRAP), tx.context.clock.now()
    row = BootstrapToken(
        tx.context.new_id(),
        f"join {cluster.handle}",
        token_hash(secret),
        tx.actor.id,
        now,
        now + life,
        project_id=cluster.project_id,
        cluster_id=cluster.id,
    )
    await tx[BootstrapTokenStore].add(row)
    return row, secret


async def _users_of_tags(
    tx: Transaction, token: BootstrapToken, creator: Actor, now: datetime
) -> list[str]:
    """Returns the users whose roles the tags of a new cluster extend, as keys of events.

    Unauthenticated: the token's creator may not bind one of these roles. A binding can be newer
    than the token.
    """
    try:
        bindings = await permitted_bindings(tx, creator, now, token.target, None, token.tags)
    except (Forbidden, NotFound) as error:
        raise Unauthenticated(
            f"the creator of bootstrap token {token.name!r} may not register clusters with its "
            "tags any more, because a role binding selects them: ask an administrator to create "
            "a new token"
        ) from error
    return [binding.affected_user for binding in bindings]


def _uid_digits(request: JoinRequest) -> str:
    return request.kubernetes_uid[:_UID_DIGITS].lower()


def _requested_handle(request: JoinRequest) -> str:
    return check_label(handle_from(request.name or f"cluster-{_uid_digits(request)}"), "name")


async def _find_adoptable(
    tx: Transaction, token: BootstrapToken, request: JoinRequest
) -> Cluster | None:
    """Returns the registered cluster that the agent gets; None: it gets a new one.

    A token for one cluster gives the agent that one, whatever name it wants.
    """
    if token.cluster_id is not None:
        return await _bound_cluster(tx, token)
    if not token.adopts:
        return None
    cluster = await tx[ClusterStore].by_handle(_requested_handle(request))
    return cluster if cluster is not None and _is_adoptable(cluster, token) else None


async def _bound_cluster(tx: Transaction, token: BootstrapToken) -> Cluster:
    """The cluster of a token for one. Conflict: it is gone, or another cluster has joined as it."""
    cluster = await tx[ClusterStore].get(token.cluster_id or "")
    if cluster is None or not _is_adoptable(cluster, token):
        raise Conflict(
            f"bootstrap token {token.name!r} is for one cluster, which was deleted or has joined "
            "already"
        )
    return cluster


def _is_adoptable(cluster: Cluster, token: BootstrapToken) -> bool:
    return (
        cluster.project_id == token.project_id
        and cluster.pinged_at is None
        and cluster.ending_at is None
        and not cluster.kubernetes_uid
    )


def _check_not_connected(cluster: Cluster, token: BootstrapToken) -> None:
    """Raises Conflict unless the cluster joined with this token and waits for its agent."""
    is_same_join = cluster.bootstrap_token_id == token.id or cluster.id == token.cluster_id
    if is_same_join and cluster.pinged_at is None and cluster.ending_at is None:
        return
    if cluster.project_id != token.project_id:
        raise Conflict("this cluster has joined already, in another project than the token's")
    raise Conflict(
        f"this cluster has joined already as {cluster.handle!r}: give its agent a deploy token "
        f"with `towline clusters rotate-token {cluster.handle}`, or delete the cluster"
    )


async def _find_valid(tx: Transaction, key: str, now: datetime) -> BootstrapToken:
    token = await tx[BootstrapTokenStore].by_hash(key)
    if token is None:
        raise Unauthenticated(_INVALID_TOKEN)
    token.check(now)
    return token


async def _find_usable(tx: Transaction, actor: Actor, id: str) -> BootstrapToken:
    row = await tx[BootstrapTokenStore].get(id)
    if row is None:
        raise NotFound("bootstrap token does not exist")
    require(actor, Verb.WRITE, row.target)
    return row
