"""Users and their tokens in the API."""

from datetime import datetime

import strawberry

from controlplane.domain.access.roles import BuiltInRole
from controlplane.domain.people import Token as TokenRow
from controlplane.domain.people import User as UserRow
from controlplane.domain.people import UserKind

strawberry.enum(BuiltInRole, name="BuiltInRole")
strawberry.enum(UserKind, name="UserKind")


@strawberry.type
class UserType:
    """A person or a service account."""

    id: strawberry.ID
    name: str
    """Display name."""
    email: str
    """E-mail address. Unique in the installation."""
    kind: UserKind
    """Person or service account."""
    disabled_at: datetime | None
    """Time at which the user was disabled. Null while the user may sign in."""
    role: BuiltInRole | None = None
    """Built-in role bound at the installation. Null in most nested selections; see `roleBindings`
    for all other roles."""

    @classmethod
    def of(cls, row: UserRow, role: str | None = None) -> "UserType":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            email=row.email,
            kind=row.kind,
            disabled_at=row.disabled_at,
            role=BuiltInRole(role) if role else None,
        )


@strawberry.type
class AccessToken:
    """An API token of a user or a service account."""

    id: strawberry.ID
    name: str
    """Display name."""
    inserted_at: datetime
    expires_at: datetime | None
    """Expiry time. Null for a token without one."""
    last_used_at: datetime | None
    """Time of the last use."""
    revoked_at: datetime | None
    """Time of revocation. Null while the token is valid."""
    token: str | None = None
    """Secret of the token. Returned only by the mutation that creates it."""

    @classmethod
    def of(cls, row: TokenRow, secret: str | None = None) -> "AccessToken":
        return cls(
            id=strawberry.ID(row.id),
            name=row.name,
            inserted_at=row.inserted_at,
            expires_at=row.expires_at,
            last_used_at=row.last_used_at,
            revoked_at=row.revoked_at,
            token=secret,
        )
