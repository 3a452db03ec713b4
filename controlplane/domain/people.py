"""Users, groups, and the tokens of users and agents."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.domain.access import Limit, Resource, ResourceKind
from core.errors import Unauthenticated
from core.identity import TokenKind

USER_TOKEN_LIFE = timedelta(days=90)
MAX_TOKEN_LIFETIME = timedelta(days=366)
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
    """A person or a service account; role bindings hold their permissions.

    `password` is an argon2 hash; without one, the user signs in through an identity provider or
    with a token. An account with an `external_id` is managed by the directory of `issuer`, which
    knows it by that id; "" if the directory gave none. `disabled_by` is the issuer whose directory
    disabled the account.
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
    def target(self) -> Resource:
        """Returns the user's location for authorization."""
        return Resource.whole(ResourceKind.USER, self.id, self.email)


@dataclass(frozen=True, slots=True)
class Group:
    """Users who receive roles together. `everyone` includes all users.

    The members of a group with an `issuer` come from that identity provider: with an `external_id`
    from its directory, else from the claims at sign-in.
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
    def target(self) -> Resource:
        """Returns the group's location for authorization."""
        return Resource.whole(ResourceKind.GROUP, self.id, self.name)


@dataclass(frozen=True, slots=True)
class Membership:
    """A user's membership of a group; `issuer` is set if an identity provider added it and may
    remove it.
    """

    id: str
    group_id: str
    user_id: str
    inserted_at: datetime
    issuer: str | None = None


@dataclass(frozen=True, slots=True)
class Login:
    """A user's identity at an identity provider."""

    id: str
    issuer: str
    subject: str
    user_id: str
    inserted_at: datetime


@dataclass(frozen=True, slots=True)
class Token:
    """Metadata of a token: its sha256, never the token itself.

    `limits` narrow the owner's permissions. A session expires when it is not used until `idle_at`.
    `parent_id` of a ticket is the token that created it; refresh tokens and their successors share
    one.
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
        """Raises Unauthenticated with the reason if the token is no longer valid."""
        if self.revoked_at is not None:
            raise Unauthenticated(f"token {self.name!r} was revoked at {self.revoked_at:%FT%TZ}")
        if self.expires_at is not None and self.expires_at <= now:
            raise Unauthenticated(f"token {self.name!r} expired at {self.expires_at:%FT%TZ}")
        if self.idle_at is not None and self.idle_at <= now:
            raise Unauthenticated(
                f"session {self.name!r} expired through inactivity; sign in again"
            )
