"""The policy of an actor: the sum of its bindings, evaluated without lookups.

A decision takes the union of the roles bound in any scope on the target's path, and then applies
the token's limits. Property tests compare it with a reference model of a few lines.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from urllib.parse import quote

from controlplane.authorization.resources import (
    INSTALLATION,
    Resource,
    ResourceKind,
    Scope,
    Verb,
    scope_of,
)
from controlplane.authorization.roles import KubernetesRequest, KubernetesRights, Right, Role

Visible = tuple[frozenset[Scope], ...]
"""Filter for lists: a visible row is in one scope of each set. Empty: everything is visible."""


@dataclass(frozen=True, slots=True)
class Grant:
    """A role in a scope, and its origin."""

    role: Role
    scope: Scope = INSTALLATION
    """`installation`, or a resource such as `project:ID`."""
    binding_id: str = ""
    expires_at: datetime | None = None
    """Expiry time. Null for a permanent role."""
    why: str = ""
    """Origin of the role: a direct binding, or a group."""


@dataclass(frozen=True, slots=True)
class Limit:
    """The part of its owner's permissions that a token may use; an empty field does not restrict.

    A scope includes everything below it.
    """

    verbs: tuple[Verb, ...] = ()
    """Operations."""
    kinds: tuple[ResourceKind, ...] = ()
    """Kinds of resources."""
    scopes: tuple[Scope, ...] = ()
    """Scopes, such as `project:ID`. Limit: 500 scopes of 64 characters."""

    def concerns(self, verb: Verb, kind: ResourceKind) -> bool:
        """Returns whether it permits the verb on the kind in some scope."""
        return (not self.verbs or verb in self.verbs) and (not self.kinds or kind in self.kinds)

    def allows(self, verb: Verb, target: Resource) -> bool:
        """Returns whether it permits the verb on the target."""
        return self.concerns(verb, target.kind) and (
            not self.scopes or not set(self.scopes).isdisjoint(target.path)
        )


@dataclass(frozen=True, slots=True)
class ClusterTenant:
    """A project whose fence has a destination in a cluster of another project."""

    id: str
    name: str

    @property
    def scope(self) -> Scope:
        """Returns the scope of its role bindings."""
        return scope_of(ResourceKind.PROJECT, self.id)

    def group(self, group: str) -> str:
        """Returns the tenant's own form of a Kubernetes group: `towline:shop:editors`.

        Its name has no colon, so that two tenants never have the same group.
        """
        return f"towline:{quote(self.name, safe='')}:{group.removeprefix('towline:')}"


@dataclass(frozen=True, slots=True)
class ClusterIdentity:
    """Identity and session rules of an actor in a cluster; `why` and
    `binding_ids` name the grants.
    """

    groups: tuple[str, ...]
    impersonate: tuple[str, ...]
    record: bool
    record_input: bool
    why: str
    binding_ids: tuple[str, ...]
    scopes: tuple[Scope, ...] = ()
    """Scopes of the grants."""


@dataclass(frozen=True, slots=True)
class Policy:
    """All grants of an actor, and the `limits` of its token: at
    least one must permit a decision.
    """

    grants: tuple[Grant, ...] = ()
    limits: tuple[Limit, ...] = ()
    _rights: Mapping[Scope, frozenset[Right]] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        rights: dict[Scope, frozenset[Right]] = {}
        for grant in self.grants:
            rights[grant.scope] = rights.get(grant.scope, frozenset()) | grant.role.rights
        object.__setattr__(self, "_rights", rights)

    def may(self, verb: Verb, target: Resource) -> bool:
        """Returns whether a role grants this verb on the target, within the limits of the token."""
        right = (verb, target.kind)
        rights = self._rights
        for scope in target.path:
            if scope in rights and right in rights[scope]:
                return not self.limits or self._within_token_limits(verb, target)
        return False

    def reasons(self, verb: Verb, target: Resource) -> list[Grant]:
        """Returns the grants that permit it; empty if it is denied."""
        if not self.may(verb, target):
            return []
        return [grant for grant in self._on(target) if (verb, target.kind) in grant.role.rights]

    def visible(self, kind: ResourceKind, verb: Verb = Verb.READ) -> Visible:
        """Returns the scopes whose rows a list of this kind may show."""
        right = (verb, kind)
        sets = [frozenset(scope for scope, rights in self._rights.items() if right in rights)]
        if self.limits:
            fit = [limit for limit in self.limits if limit.concerns(verb, kind)]
            sets.append(frozenset(s for limit in fit for s in limit.scopes or (INSTALLATION,)))
        return tuple(scopes for scopes in sets if INSTALLATION not in scopes)

    def anywhere(self, verb: Verb, kind: ResourceKind) -> bool:
        """Returns whether the verb is permitted on this kind in at least one scope."""
        return all(self.visible(kind, verb))

    def cluster_identity(
        self,
        cluster: Resource,
        request: KubernetesRequest | None = None,
        tenants: Sequence[ClusterTenant] = (),
    ) -> ClusterIdentity | None:
        """Returns the actor's identity in a cluster for a request; None: no access.

        A role in one of the `tenants` gives only the groups of that tenant, and lets nobody
        impersonate others: the cluster belongs to another project.
        """
        own = [
            grant
            for grant in self.reasons(Verb.CONNECT, cluster)
            if grant.role.kubernetes.allows(request)
        ]
        shared = [
            (tenant, grant)
            for tenant in tenants
            for grant in self._connecting(cluster, tenant)
            if grant.role.kubernetes.allows(request)
        ]
        grants = [*own, *(grant for _, grant in shared)]
        if not grants:
            return None
        rights = [grant.role.kubernetes for grant in grants]
        whys = [f"role {grant.role.name}" for grant in own]
        whys += [f"role {grant.role.name} in project {tenant.name}" for tenant, grant in shared]
        of_tenants = (
            tuple(tenant.group(group) for group in grant.role.kubernetes.groups)
            for tenant, grant in shared
        )
        return ClusterIdentity(
            groups=_joined((*(grant.role.kubernetes.groups for grant in own), *of_tenants)),
            impersonate=_joined(grant.role.kubernetes.impersonate for grant in own),
            record=any(right.record for right in rights),
            record_input=any(right.record_input for right in rights),
            why=", ".join(dict.fromkeys(whys)),
            binding_ids=tuple(grant.binding_id for grant in grants),
            scopes=tuple(grant.scope for grant in grants),
        )

    def _connecting(self, cluster: Resource, tenant: ClusterTenant) -> list[Grant]:
        """Returns the grants in a tenant that let the actor connect to a shared cluster."""
        shared = Resource(cluster.kind, cluster.id, (INSTALLATION, tenant.scope, cluster.scope))
        if self.limits and not self._within_token_limits(Verb.CONNECT, shared):
            return []
        right = (Verb.CONNECT, ResourceKind.CLUSTER)
        return [
            grant
            for grant in self.grants
            if grant.scope == tenant.scope and right in grant.role.rights
        ]

    def covers(self, role: Role, target: Resource) -> bool:
        """Returns whether the actor has every permission that a binding of the role would grant."""
        has_rights = all(
            self.may(verb, Resource(kind, target.id, target.path)) for verb, kind in role.rights
        )
        return has_rights and self._covers_clusters(role, target)

    def lasting(self, until: datetime | None) -> "Policy":
        """Returns the grants that do not expire before a time; None: that never expire."""
        kept = [
            grant
            for grant in self.grants
            if grant.expires_at is None or (until is not None and until <= grant.expires_at)
        ]
        return replace(self, grants=tuple(kept))

    @property
    def until(self) -> datetime | None:
        """Returns the earliest expiry of the grants; None: no grant expires."""
        return min((grant.expires_at for grant in self.grants if grant.expires_at), default=None)

    def _covers_clusters(self, role: Role, target: Resource) -> bool:
        right = (Verb.CONNECT, ResourceKind.CLUSTER)
        # A role that may connect, without rules, forwards every request and records none.
        if right not in role.rights and role.kubernetes == KubernetesRights():
            return True
        held = [grant.role.kubernetes for grant in self._on(target) if right in grant.role.rights]
        return any(rights.covers(role.kubernetes) for rights in held)

    def _on(self, target: Resource) -> Iterable[Grant]:
        return (grant for grant in self.grants if grant.scope in target.path)

    def _within_token_limits(self, verb: Verb, target: Resource) -> bool:
        return any(limit.allows(verb, target) for limit in self.limits)


NO_PERMISSIONS = Policy()


def _joined(parts: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item for part in parts for item in part))
