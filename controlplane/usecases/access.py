"""Who may reach into which cluster, and as whom the cluster sees them."""

from dataclasses import dataclass, replace
from datetime import datetime

from controlplane.domain.access import Actor, ActorKind, Verb, require
from controlplane.domain.people import User
from controlplane.usecases.deps import Deps
from fleet.errors import NotFound, Unauthenticated
from fleet.identity import ClusterId

_CACHE_SECONDS = 3.0
_CACHE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class ClusterGrant:
    """A verdict: this cluster, as this user with these groups."""

    cluster_id: ClusterId
    user: str
    groups: tuple[str, ...]
    uid: str
    may_impersonate: bool
    rule: str


class Access:
    """Verbs of the Kubernetes door. Verdicts are remembered for 3 s."""

    def __init__(self, deps: Deps) -> None:
        self._deps = deps
        self._verdicts: dict[tuple[str, str], tuple[float, ClusterGrant]] = {}

    async def connect(self, user_id: str, handle: str) -> ClusterGrant:
        """The grant of a user on a cluster. NotFound: none such. Forbidden: names the right."""
        key = (user_id, handle)
        now = self._deps.clock.monotonic()
        known = self._verdicts.get(key)
        if known is not None and known[0] > now:
            return known[1]
        grant = await self._decide(user_id, handle)
        if len(self._verdicts) >= _CACHE_SIZE:
            self._verdicts.clear()
        self._verdicts[key] = (now + _CACHE_SECONDS, grant)
        return grant

    async def last_seen(self, cluster_id: ClusterId) -> datetime | None:
        """When the cluster's agent was last heard of; None: never."""
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(cluster_id)
        return cluster.pinged_at if cluster else None

    async def _decide(self, user_id: str, handle: str) -> ClusterGrant:
        async with self._deps.store.read() as tx:
            user = await tx.users.get(user_id)
            cluster = await tx.clusters.find(handle=handle)
        actor = _actor(user)
        require(actor, Verb.CONNECT, f"cluster {handle!r}")
        if cluster is None:
            raise NotFound(f'no cluster "{handle}" here, or you may not see it')
        return ClusterGrant(
            cluster_id=cluster.id,
            user=actor.email,
            groups=actor.kubernetes_groups,
            uid=actor.id,
            may_impersonate=actor.may(Verb.ADMINISTER),
            rule=f"role {actor.role}",
        )


def _actor(user: User | None) -> Actor:
    if user is None or user.disabled_at is not None:
        raise Unauthenticated("this account is gone or disabled")
    blank = Actor(ActorKind.USER)
    return replace(blank, id=user.id, name=user.name, email=user.email, role=user.role)
