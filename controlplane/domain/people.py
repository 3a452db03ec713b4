"""Users and the tokens they carry."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from controlplane.domain.access import Role
from fleet.errors import Unauthenticated
from fleet.identity import TokenKind

USER_TOKEN_LIFE = timedelta(days=90)
LONGEST_TOKEN_LIFE = timedelta(days=366)


@dataclass(frozen=True, slots=True)
class User:
    """A person with a role in this installation."""

    id: str
    email: str
    name: str
    role: Role
    inserted_at: datetime
    updated_at: datetime
    disabled_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Token:
    """What is kept of a token: never the token itself, only its sha256."""

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

    def check(self, now: datetime) -> None:
        """Raise Unauthenticated, saying why, if the token is no longer good."""
        if self.revoked_at is not None:
            raise Unauthenticated(f"token {self.name!r} was revoked at {self.revoked_at:%FT%TZ}")
        if self.expires_at is not None and self.expires_at <= now:
            raise Unauthenticated(f"token {self.name!r} expired at {self.expires_at:%FT%TZ}")
