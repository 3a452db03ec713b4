"""Who may reach into which cluster, and as whom the cluster sees them."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from controlplane.domain.access import Actor, Target, Verb
from controlplane.domain.access.actor import EVERYBODY, refusal
from controlplane.domain.access.policy import Door
from controlplane.domain.access.roles import KubernetesRequest
from controlplane.usecases.deps import Deps
from controlplane.usecases.identity import Identity
from fleet.errors import Forbidden, NotFound
from fleet.identity import ClusterId

_CACHE_SECONDS = 3.0
_CACHE_SIZE = 10_000


@dataclass(frozen=True, slots=True)
class ClusterGrant:
    """A verdict: this cluster, as this user with these groups.

    `door` tells whom else they may act as and whether interactive sessions are recorded; `id`
    names the bindings behind it; `expires_at` is when the first of them ends.
    """

    id: str
    cluster_id: ClusterId
    user: str
    groups: tuple[str, ...]
    uid: str
    door: Door
    rule: str
    expires_at: datetime | None = None

    @property
    def may_impersonate(self) -> bool:
        """Whether acting as anybody else is allowed at all; `door.may_act_as` says as whom."""
        return bool(self.door.impersonate)


class Access:
    """Verbs of the Kubernetes door. Policies are remembered for 3 s."""

    def __init__(self, deps: Deps, identity: Identity | None = None) -> None:
        self._deps = deps
        self._identity = identity or Identity(deps)
        self._known: dict[tuple[str, str | None, str], tuple[float, Actor, Target]] = {}
        self._changes = 0

    async def connect(
        self,
        user_id: str,
        handle: str,
        request: KubernetesRequest | None = None,
        *,
        token_id: str | None = None,
    ) -> ClusterGrant:
        """The grant of a user, by a token, for a request to a cluster; None: for any at all.

        NotFound: no such cluster, or not to be seen. Forbidden: names the right.
        """
        actor, cluster = await self._look((user_id, token_id, handle))
        if not (actor.may(Verb.READ, cluster) or actor.may(Verb.CONNECT, cluster)):
            raise _nowhere(handle)
        door = actor.policy.door(cluster, request)
        if door is None:
            raise Forbidden(_why_not(actor, cluster, request))
        return ClusterGrant(
            id=" ".join(door.binding_ids),
            cluster_id=ClusterId(cluster.id),
            user=actor.email,
            groups=(EVERYBODY, *door.groups),
            uid=actor.id,
            door=door,
            rule=door.why,
            expires_at=actor.policy.until,
        )

    async def last_seen(self, cluster_id: ClusterId) -> datetime | None:
        """When the cluster's agent was last heard of; None: never."""
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.get(cluster_id)
        return cluster.pinged_at if cluster else None

    def forget_user(self, user_id: str) -> None:
        """Drop what is remembered of a user; of all without an id."""
        self._drop(lambda user, _: not user_id or user == user_id)

    def forget_token(self, token_id: str) -> None:
        """Drop what is remembered of a revoked token."""
        self._drop(lambda _, token: token == token_id)

    def _drop(self, stale: Callable[[str, str | None], bool]) -> None:
        self._changes += 1
        for key in [key for key in self._known if stale(key[0], key[1])]:
            del self._known[key]

    async def _look(self, key: tuple[str, str | None, str]) -> tuple[Actor, Target]:
        now = self._deps.clock.monotonic()
        known = self._known.get(key)
        if known is not None and known[0] > now:
            return known[1], known[2]
        user_id, token_id, handle = key
        before = self._changes
        actor = await self._identity.actor_of(user_id, token_id)
        async with self._deps.store.read() as tx:
            cluster = await tx.clusters.find(handle=handle)
        if cluster is None:
            raise _nowhere(handle)
        # A right lost while it was being read must not be remembered.
        if before == self._changes:
            self._remember(key, now, actor, cluster.target)
        return actor, cluster.target

    def _remember(
        self, key: tuple[str, str | None, str], now: float, actor: Actor, target: Target
    ) -> None:
        if len(self._known) >= _CACHE_SIZE:
            self._known.clear()
        self._known[key] = (now + _CACHE_SECONDS, actor, target)


def _nowhere(handle: str) -> NotFound:
    return NotFound(f'no cluster "{handle}" here, or you may not see it')


def _why_not(actor: Actor, cluster: Target, request: KubernetesRequest | None) -> str:
    if request is None or not actor.may(Verb.CONNECT, cluster):
        return refusal(actor, Verb.CONNECT, cluster)
    what = f"{request.verb} {request.resource}".strip()
    return f"{actor.email} may not {what} in {cluster}: no role lets this through the door"
