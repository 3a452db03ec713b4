"""Users and their tokens, as the API shows them."""

from datetime import datetime

import strawberry

from controlplane.domain.access.roles import BuiltInRole
from controlplane.domain.people import Token as TokenRow
from controlplane.domain.people import User as UserRow
from controlplane.domain.people import UserKind

strawberry.enum(BuiltInRole, name="BuiltInRole")
strawberry.enum(UserKind, name="UserKind")


@strawberry.type
class User:
    """A person or a service account. `role` is the built-in one that they have everywhere, where
    a list or `me` tells it; see `roleBindings` for all others."""

    id: strawberry.ID
    name: str
    email: str
    kind: UserKind
    disabled_at: datetime | None
    role: BuiltInRole | None = None

    @classmethod
    def of(cls, row: UserRow, role: str | None = None) -> "User":
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
    """A token of a user. `token` is the secret: given once, when it is made."""

    id: strawberry.ID
    name: str
    inserted_at: datetime
    expires_at: datetime | None
    last_used_at: datetime | None
    revoked_at: datetime | None
    token: str | None = None

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
