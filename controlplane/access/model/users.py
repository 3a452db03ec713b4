"""Users, groups, and the tokens of users and agents."""

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.authorization import Limit, Resource, ResourceKind
from controlplane.platform.parts import NamedRow
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
    """A person or a service account; role bindings hold their permissions."""

    id: str
    email: str
    """E-mail address. Unique in the installation."""
    name: str
    """Display name."""
    inserted_at: datetime
    updated_at: datetime
    kind: UserKind = UserKind.PERSON
    """Person or service account."""
    disabled_at: datetime | None = None
    """Time at which the user was disabled. Null while the user may sign in."""
    password: str | None = field(default=None, repr=False)
    """Argon2 hash. None: the user signs in through an identity provider or with a token."""
    issuer: str | None = None
    """Identity provider whose directory manages the account."""
    external_id: str | None = None
    """ID of the account in that directory; "" if the directory gave none. None: no directory
    manages the account."""
    disabled_by: str | None = None
    """Issuer whose directory disabled the account."""

    @property
    def target(self) -> Resource:
        """Returns the user's location for authorization."""
        return Resource.whole(ResourceKind.USER, self.id, self.email)


@dataclass(frozen=True, slots=True)
class Group(NamedRow):
    """Users who receive roles together."""

    description: str | None = None
    """Free text."""
    everyone: bool | None = None
    """True if every user is a member."""
    issuer: str | None = None
    """Identity provider that manages the members. Null if members are managed here."""
    external_id: str | None = None
    """ID of the group in the issuer's directory. None: members come from the claims at sign-in."""

    @property
    def target(self) -> Resource:
        """Returns the group's location for authorization."""
        return Resource.whole(ResourceKind.GROUP, self.id, self.name)


@dataclass(frozen=True, slots=True)
class Membership:
    """A user's membership of a group."""

    id: str
    group_id: str
    user_id: str
    inserted_at: datetime
    issuer: str | None = None
    """Identity provider that added the membership and may remove it."""


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
    """Metadata of a token, without the token itself."""

    id: str
    kind: TokenKind
    name: str
    """Display name."""
    hash: str
    """SHA-256 of the token."""
    inserted_at: datetime
    user_id: str | None = None
    cluster_id: str | None = None
    expires_at: datetime | None = None
    """Expiry time. Null for a token without one."""
    last_used_at: datetime | None = None
    """Time of the last use."""
    revoked_at: datetime | None = None
    """Time of revocation. Null while the token is valid."""
    limits: tuple[Limit, ...] = ()
    """Limits to the permissions of the owner."""
    idle_at: datetime | None = None
    """Expiry time of a session that is not used until then."""
    parent_id: str | None = None
    """Token that created a ticket. Refresh tokens and their successors share one."""
    source: str = ""
    """Network address of the client that created the token."""

    @property
    def ends_at(self) -> datetime | None:
        """Returns the time until which it is valid if nobody uses or revokes it; None: no end."""
        return min(filter(None, (self.expires_at, self.idle_at)), default=None)

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
