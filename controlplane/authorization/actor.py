"""The caller of an operation, and permission checks. API layers pass the `Actor` to operations."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.authorization.policy import NO_PERMISSIONS, Grant, Policy
from controlplane.authorization.resources import Resource, ResourceKind, Verb
from controlplane.authorization.roles import ADMIN, weakest_with
from core.errors import Forbidden, NotFound, TowlineError, Unauthenticated

_SHARED = frozenset(
    {ResourceKind.USER, ResourceKind.GROUP, ResourceKind.ROLE, ResourceKind.INSTALLATION}
)
"""Kinds of resources that are in no project."""
_HOLDERS: Mapping[ResourceKind, Collection[ResourceKind]] = {
    ResourceKind.CLUSTER: (ResourceKind.PROJECT, ResourceKind.CLUSTER),
    ResourceKind.SERVICE: (ResourceKind.PROJECT, ResourceKind.CLUSTER, ResourceKind.SERVICE),
    ResourceKind.BINDING: tuple(ResourceKind),
    ResourceKind.AUDIT: tuple(ResourceKind),
}
"""Kinds of scopes that can hold a resource of a kind. Default: projects and the kind itself."""
EVERYBODY = "towline:users"
"""Kubernetes group of all users who connect through the Kubernetes proxy."""


class ActorKind(StrEnum):
    """Kind of caller."""

    USER = "user"
    SERVICE_ACCOUNT = "service-account"
    SYSTEM = "system"
    ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of an operation.

    `expires_at` is the expiry of its token, `source` its network address. `cause` has facts about
    the reason of its operations, for the audit log.
    """

    kind: ActorKind
    id: str = ""
    name: str = ""
    email: str = ""
    policy: Policy = field(default=NO_PERMISSIONS, repr=False)
    token_id: str | None = None
    expires_at: datetime | None = None
    source: str = field(default="", compare=False)
    cause: tuple[tuple[str, str], ...] = field(default=(), compare=False)

    @property
    def shown_name(self) -> str:
        """Returns the e-mail address, or else the name. Limit: 320 characters."""
        return (self.email or self.name)[:320]

    def may(self, verb: Verb, target: Resource) -> bool:
        """Returns whether the actor has the permission."""
        return self.policy.may(verb, target)


ANONYMOUS = Actor(ActorKind.ANONYMOUS)
SYSTEM = Actor(ActorKind.SYSTEM, id="towline", name="towline", policy=Policy((Grant(ADMIN),)))


def require_member(actor: Actor) -> None:
    """Raises Unauthenticated unless `actor` is authenticated."""
    if actor.kind is ActorKind.ANONYMOUS:
        raise Unauthenticated("sign in first: send a token, or run `towline login`")


def require(actor: Actor, verb: Verb, target: Resource) -> None:
    """Raises unless `actor` may `verb` the target.

    Raises NotFound if the actor may not even see the target, else Forbidden with the missing
    permission.
    """
    require_member(actor)
    if actor.may(verb, target):
        return
    if target.id and not actor.may(Verb.READ, target):
        raise NotFound(kind=target.kind)
    raise Forbidden(permission_error(actor, verb, target))


def require_any(actor: Actor, verb: Verb, kind: ResourceKind) -> None:
    """Raises unless `actor` may `verb` resources of this kind in at least one scope."""
    require_member(actor)
    if not actor.policy.anywhere(verb, kind):
        raise Forbidden(permission_error(actor, verb, Resource.whole(kind)))


def without_doubt(actor: Actor, error: TowlineError) -> TowlineError:
    """Returns Forbidden instead of NotFound to an actor who may read no resource of this kind.

    Programs such as Terraform take NotFound for a deletion.
    """
    if not isinstance(error, NotFound) or not error.kind:
        return error
    kind = ResourceKind(error.kind)
    may_read = _may_read_any(actor, kind)
    every = Resource.whole(kind)
    return error if may_read else Forbidden(permission_error(actor, Verb.READ, every))


def _may_read_any(actor: Actor, kind: ResourceKind) -> bool:
    """Returns whether there can be a resource of this kind that the actor may read."""
    if kind in _SHARED:
        return actor.may(Verb.READ, Resource.whole(kind))
    holders = _HOLDERS.get(kind, (ResourceKind.PROJECT, kind))
    return all(
        any(scope.partition(":")[0] in holders for scope in scopes)
        for scopes in actor.policy.visible(kind)
    )


def permission_error(actor: Actor, verb: Verb, target: Resource) -> str:
    """Returns the error text for a missing permission."""
    needed = weakest_with((verb, target.kind)).name
    alternative = ", or a token with wider scopes" if actor.policy.limits else ""
    return f"{actor.shown_name} may not {verb} {target}: needs role {needed}{alternative}"
