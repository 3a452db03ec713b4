"""Access to clusters through the Kubernetes proxy: permission checks and impersonated
identities."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime

from controlplane.access.model.bindings import Project
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import ProjectStore
from controlplane.authorization import Actor, FenceCluster, Resource, ResourceKind, Scope, Verb
from controlplane.authorization.actor import EVERYBODY, permission_error
from controlplane.authorization.policy import ClusterIdentity, ClusterTenant
from controlplane.authorization.roles import KubernetesRequest
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.operations.deploy_tokens import DeployTokenReader
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import StoreContext
from controlplane.platform.ports import Transaction
from core.errors import Forbidden, NotFound
from core.identity import ClusterId

_CACHE_SECONDS = 3.0
CACHE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class ClusterGrant:
    """Permission for one cluster: the user and the groups that the proxy impersonates there."""

    id: str
    """IDs of the role bindings that grant the access."""
    cluster_id: ClusterId
    user: str
    groups: tuple[str, ...]
    uid: str
    cluster_identity: ClusterIdentity
    """Further identities that the user may impersonate, and recording of interactive sessions."""
    rule: str
    stream_limits: tuple[tuple[str, int], ...] = ()
    """Projects whose roles grant the access, with their maximum number of open requests."""
    expires_at: datetime | None = None
    """Expiry of the first binding that expires."""


@dataclass(frozen=True, slots=True)
class _CachedAccess:
    """A user, a cluster, and the user's projects with a destination there.

    `limits`: names of projects and their maximum number of open requests, by scope.
    """

    actor: Actor
    cluster: Resource
    tenants: tuple[ClusterTenant, ...]
    limits: Mapping[Scope, tuple[str, int]]


class ProxyAccess:
    """Operations of the Kubernetes proxy. Policies are cached for 3 s."""

    def __init__(
        self, context: StoreContext, identity: CredentialAuthenticator | None = None
    ) -> None:
        self._context = context
        self._identity = identity or CredentialAuthenticator(
            context, DeployTokenReader(context.store)
        )
        self._cache: dict[tuple[str, str | None, str], tuple[float, _CachedAccess]] = {}
        self._changes = 0

    async def connect(
        self,
        user_id: str,
        handle: str,
        request: KubernetesRequest | None = None,
        *,
        token_id: str | None = None,
    ) -> ClusterGrant:
        """Authorizes a user for a cluster, and for one `request`; without a request, for any.

        NotFound: the cluster does not exist, or the user may not see it. Forbidden: the message
        names the missing permission.
        """
        access = await self._resolve_access((user_id, token_id, handle))
        actor, cluster, tenants = access.actor, access.cluster, access.tenants
        is_known = actor.may(Verb.READ, cluster) or actor.may(Verb.CONNECT, cluster)
        cluster_identity = actor.policy.cluster_identity(cluster, request, tenants)
        if not (is_known or actor.policy.cluster_identity(cluster, None, tenants)):
            raise _not_found(handle)
        if cluster_identity is None:
            raise Forbidden(_denial_reason(actor, cluster, request))
        return ClusterGrant(
            id=" ".join(cluster_identity.binding_ids),
            cluster_id=ClusterId(cluster.id),
            user=actor.email,
            groups=(EVERYBODY, *cluster_identity.groups),
            uid=actor.id,
            cluster_identity=cluster_identity,
            rule=cluster_identity.why,
            stream_limits=tuple(
                access.limits[scope]
                for scope in dict.fromkeys(cluster_identity.scopes)
                if scope in access.limits
            ),
            expires_at=actor.policy.until,
        )

    async def last_seen(self, cluster_id: ClusterId) -> tuple[datetime, str] | None:
        """Time of the last message from the cluster's agent, and the alarm of its cluster; None if
        it never connected.
        """
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].get(cluster_id)
        return (cluster.pinged_at, cluster.alarm) if cluster and cluster.pinged_at else None

    def drop_user(self, user_id: str) -> None:
        """Drops the cached policies of a user; an empty id drops those of all users."""
        self._drop_cached(lambda user, _: not user_id or user == user_id)

    def drop_token(self, token_id: str) -> None:
        """Drops the cached policies of a revoked token."""
        self._drop_cached(lambda _, token: token == token_id)

    def _drop_cached(self, is_stale: Callable[[str, str | None], bool]) -> None:
        self._changes += 1
        for key in [key for key in self._cache if is_stale(key[0], key[1])]:
            del self._cache[key]

    async def _resolve_access(self, key: tuple[str, str | None, str]) -> _CachedAccess:
        now = self._context.clock.monotonic()
        cached = self._cache.get(key)
        if cached is not None and cached[0] > now:
            return cached[1]
        user_id, token_id, handle = key
        changes_before = self._changes
        actor = await self._identity.actor_of(user_id, token_id)
        async with self._context.store.read() as tx:
            cluster = await tx[ClusterStore].by_handle(handle)
            projects = await _projects_of(tx, actor)
        if cluster is None:
            raise _not_found(handle)
        limits = {
            project.target.scope: (project.name, project.fence.max_open_streams)
            for project in projects
            if project.fence.max_open_streams
        }
        access = _CachedAccess(actor, cluster.target, _tenants_of(projects, cluster), limits)
        # A permission that was revoked during the read must not be cached.
        if changes_before == self._changes:
            self._cache_access(key, now, access)
        return access

    def _cache_access(
        self, key: tuple[str, str | None, str], now: float, access: _CachedAccess
    ) -> None:
        if len(self._cache) >= CACHE_SIZE:
            self._cache.clear()
        expires_at, seconds = access.actor.policy.until, _CACHE_SECONDS
        if expires_at is not None:
            seconds = min(seconds, (expires_at - self._context.clock.now()).total_seconds())
        self._cache[key] = (now + seconds, access)


async def _projects_of(tx: Transaction, actor: Actor) -> list[Project]:
    """The projects in which the actor has a role, by name."""
    scopes = [grant.scope.partition(":") for grant in actor.policy.grants]
    ids = {id for kind, _, id in scopes if kind == ResourceKind.PROJECT}
    projects = await tx[ProjectStore].by_ids(ids) if ids else []
    return sorted(projects, key=lambda project: project.name)


def _tenants_of(projects: Iterable[Project], cluster: Cluster) -> tuple[ClusterTenant, ...]:
    """The projects with a destination in a cluster of another project."""
    project_id, destination = cluster.project_id, FenceCluster(cluster.handle, cluster.tags)
    return tuple(
        ClusterTenant(project.id, project.name)
        for project in projects
        if project.id != project_id and project.fence.reaches(destination)
    )


def _not_found(handle: str) -> NotFound:
    return NotFound(f'cluster "{handle}" not found, or you have no access to it')


def _denial_reason(actor: Actor, cluster: Resource, request: KubernetesRequest | None) -> str:
    if request is None or not actor.may(Verb.CONNECT, cluster):
        return permission_error(actor, Verb.CONNECT, cluster)
    action = f"{request.verb} {request.resource}".strip()
    return f"{actor.email} may not {action} in {cluster}: no role allows this request"
