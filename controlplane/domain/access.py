"""Who acts, and what each may do: deny unless allowed.

Authorization is decided here and asked for by use cases only; edges carry the `Actor` through.
"""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from fleet.errors import Forbidden, Unauthenticated


class Role(StrEnum):
    """What a person may do in the whole installation, weakest first."""

    VIEWER = "viewer"
    EDITOR = "editor"
    ADMIN = "admin"


class Verb(StrEnum):
    """What can be done to the things of the domain."""

    READ = "read"
    WRITE = "write"
    APPROVE = "approve"
    CONNECT = "connect"
    ADMINISTER = "administer"


_ALLOWED: dict[Role, frozenset[Verb]] = {
    Role.VIEWER: frozenset({Verb.READ, Verb.CONNECT}),
    Role.EDITOR: frozenset({Verb.READ, Verb.CONNECT, Verb.WRITE, Verb.APPROVE}),
    Role.ADMIN: frozenset(Verb),
}

_GROUPS: dict[Role, str] = {
    Role.VIEWER: "towline:viewers",
    Role.EDITOR: "towline:editors",
    Role.ADMIN: "towline:admins",
}


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
    role: Role | None = None
    token_id: str | None = None
    expires_at: datetime | None = None
    source: str = field(default="", compare=False)

    def may(self, verb: Verb) -> bool:
        """Whether the actor has the right, installation-wide."""
        if self.kind is ActorKind.SYSTEM:
            return True
        return self.role is not None and verb in _ALLOWED[self.role]

    @property
    def kubernetes_groups(self) -> tuple[str, ...]:
        """The groups as which the actor appears inside clusters."""
        return ("towline:users", _GROUPS[self.role]) if self.role else ()


ANONYMOUS = Actor(ActorKind.ANONYMOUS)
SYSTEM = Actor(ActorKind.SYSTEM, id="towline", name="towline")


def require_member(actor: Actor) -> None:
    """Raise unless it is known who `actor` is."""
    if actor.kind is ActorKind.ANONYMOUS:
        raise Unauthenticated("sign in first: send a token, or run `towline login`")


def require(actor: Actor, verb: Verb, what: str) -> None:
    """Raise unless `actor` may `verb`; `what` names the thing for the message."""
    require_member(actor)
    if not actor.may(verb):
        needed = next(role for role in Role if verb in _ALLOWED[role])
        raise Forbidden(f"{actor.email or actor.name} may not {verb} {what}: needs role {needed}")
