"""Inputs of the API for users and tokens."""

from datetime import timedelta

import strawberry

from controlplane.access.api.types import TokenScopeAttributes
from controlplane.authorization.roles import BuiltInRole
from core.errors import Invalid


@strawberry.input
class UserAttributes:
    """Fields of a user."""

    email: str | None = None
    """E-mail address. Required on creation."""
    name: str | None = None
    """Display name."""
    role: BuiltInRole | None = None
    """Built-in role at the installation. A new user without one has no permissions until a role is
    bound."""


@strawberry.input
class AccessTokenAttributes:
    """Fields of a token."""

    name: str
    """Display name."""
    expires_in_days: int | None = None
    """Lifetime in days. Default: 90. Limit: 366."""
    scopes: list[TokenScopeAttributes] | None = None
    """Limits of the token. Default: all permissions of its owner. Limit: 20."""

    def life(self) -> timedelta:
        days = _DEFAULT_DAYS if self.expires_in_days is None else self.expires_in_days
        try:
            return timedelta(days=days)
        except OverflowError as error:
            raise Invalid(f"{days} days, 366 at most", field="expiresInDays") from error


_DEFAULT_DAYS = 90
