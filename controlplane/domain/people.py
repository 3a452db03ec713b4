"""Users, groups, and the tokens that users and agents carry."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.domain.access import Kind, Limit, Target
from fleet.errors import Unauthenticated
from fleet.identity import TokenKind

USER_TOKEN_LIFE = timedelta(days=90)
LONGEST_TOKEN_LIFE = timedelta(days=366)
SESSION_LIFE = timedelta(days=7)
SESSION_IDLE = timedelta(hours=12)
TICKET_LIFE = timedelta(seconds=60)


class UserKind(StrEnum):
    """Kind of a user: a person or a program."""

    PERSON = "person"
    """A person."""
    SERVICE_ACCOUNT = "service-account"
    """A service account, which authenticates with tokens only."""


@dataclass(frozen=True, slots=True)
class User:
    """A person or a service account. What they may do, bindings of roles say.

    `password` is an argon2 hash; without one, they sign in by an identity provider or a token.
    An account with an `external_id` is kept by the directory of `issuer`, which calls it so, or
    has no name of its own for it (""). `disabled_by` is the issuer whose directory has disabled it.
    """

    id: str
    email: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    kind: UserKind = UserKind.PERSON
    disabled_at: datetime | None = None
    password: str | None = field(default=None, repr=False)
    issuer: str | None = None
    external_id: str | None = None
    disabled_by: str | None = None

    @property
    def target(self) -> Target:
        """Where the user stands."""
        return Target.whole(Kind.USER, self.id, self.email)


@dataclass(frozen=True, slots=True)
class Group:
    """People who are given roles together. `everyone`: all people are in it.

    A group with an `issuer` gets its members from that identity provider: with an `external_id`
    by its directory, else from what it says as they sign in.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    description: str | None = None
    everyone: bool | None = None
    issuer: str | None = None
    external_id: str | None = None

    @property
    def target(self) -> Target:
        """Where the group stands."""
        return Target.whole(Kind.GROUP, self.id, self.name)


@dataclass(frozen=True, slots=True)
class Membership:
    """A user in a group; `issuer` if an identity provider says so, who may also take it back."""

    id: str
    group_id: str
    user_id: str
    inserted_at: datetime
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """As whom an identity provider knows a user."""

    id: str
    issuer: str
    subject: str
    user_id: str
    inserted_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token: never the token itself, only its sha256.

    `limits` narrow what its owner may do with it. A session ends when it has not been used until
    `idle_at`. A ticket has the `parent_id` of the token that it was made with; refresh tokens and
    what they bring have one in common.
    """

    id: str
    kind: TokenKind
    name: str
    hash: str
    inserted_at: datetime
    user_id: str | None = None
    cluster_id: str | None = None
    expires_at: datetime | None = None
    last_used_at: datetime | None = None
    revoked_at: datetime | None = None
    limits: tuple[Limit, ...] = ()
    idle_at: datetime | None = None
    parent_id: str | None = None
    source: str = ""

    def check(self, now: datetime) -> None:
        """Raise Unauthenticated, saying why, if the token is no longer good."""
        if self.revoked_at is not None:
            raise Unauthenticated(f"token {self.name!r} was revoked at {self.revoked_at:%FT%TZ}")
        if self.expires_at is not None and self.expires_at <= now:
            raise Unauthenticated(f"token {self.name!r} expired at {self.expires_at:%FT%TZ}")
        if self.idle_at is not None and self.idle_at <= now:
            raise Unauthenticated(f"session {self.name!r} was not used for too long: sign in again")
