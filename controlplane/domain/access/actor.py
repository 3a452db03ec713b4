"""Who acts, and asking for a right.

Use cases ask; edges carry the `Actor` through.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.access.policy import NOTHING, Grant, Policy
from controlplane.domain.access.roles import ADMIN, weakest_with
from controlplane.domain.access.targets import Target, Verb
from fleet.errors import Forbidden, NotFound, Unauthenticated

EVERYBODY = "towline:users"
"""The group in clusters of all who come through the door."""


class ActorKind(StrEnum):
    """What sort of caller stands behind a request."""

    USER = "user"
    SERVICE_ACCOUNT = "service-account"
    SYSTEM = "system"
    ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Actor:
    """The caller of a use case.

    `expires_at` is the end of the token it came with, `source` its network address.
    """

    kind: ActorKind
    id: str = ""
    name: str = ""
    email: str = ""
    policy: Policy = field(default=NOTHING, repr=False)
    token_id: str | None = None
    expires_at: datetime | None = None
    source: str = field(default="", compare=False)

    def may(self, verb: Verb, target: Target) -> bool:
        """Whether the actor has the right."""
        return self.policy.may(verb, target)


ANONYMOUS = Actor(ActorKind.ANONYMOUS)
SYSTEM = Actor(ActorKind.SYSTEM, id="towline", name="towline", policy=Policy((Grant(ADMIN),)))


def require_member(actor: Actor) -> None:
    """Raise unless it is known who `actor` is."""
    if actor.kind is ActorKind.ANONYMOUS:
        raise Unauthenticated("sign in first: send a token, or run `towline login`")


def require(actor: Actor, verb: Verb, target: Target) -> None:
    """Raise unless `actor` may `verb` the target.

    NotFound: there is a thing, which the actor may not even see. Forbidden: names the right.
    """
    require_member(actor)
    if actor.may(verb, target):
        return
    if target.id and not actor.may(Verb.READ, target):
        raise NotFound
    raise Forbidden(refusal(actor, verb, target))


def require_any(actor: Actor, verb: Verb, kind: "Target") -> None:
    """Raise unless there may be something of the target's kind that `actor` may `verb`."""
    require_member(actor)
    if not actor.policy.anywhere(verb, kind.kind):
        raise Forbidden(refusal(actor, verb, kind))


def refusal(actor: Actor, verb: Verb, target: Target) -> str:
    """The sentence for a missing right."""
    needed = weakest_with((verb, target.kind)).name
    who = actor.email or actor.name
    if actor.policy.limits:
        return f"{who} may not {verb} {target}: needs role {needed}, or a token with wider scopes"
    return f"{who} may not {verb} {target}: needs role {needed}"
