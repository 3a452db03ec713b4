"""Sign-in: state between its steps, counts of failures, and claims of identity providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

FAILURES_WINDOW = timedelta(minutes=15)
MAX_FAILURES_PER_ACCOUNT = 10
MAX_FAILURES_PER_SOURCE = 50


class ChallengeKind(StrEnum):
    """Kinds of pending sign-ins."""

    OIDC = "oidc"
    DEVICE = "device"
    SETUP = "setup"


@dataclass(frozen=True, slots=True)
class SignInChallenge:
    """A pending sign-in."""

    id: str
    kind: ChallengeKind
    hash: str
    """SHA-256 of a secret that only the client knows."""
    inserted_at: datetime
    expires_at: datetime
    code: str | None = None
    """Text that a user types to approve a device."""
    detail: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_id: str | None = None
    """User who approved or denied the device."""
    taken_at: datetime | None = None
    """Time of its single use."""


@dataclass(frozen=True, slots=True)
class SignInFailures:
    """Number of failed sign-ins of one account or source in a window."""

    id: str
    """SHA-256 of the account or source, so that the table contains no names."""
    count: int
    until: datetime


@dataclass(frozen=True, slots=True)
class TrustRule:
    """Rule for the exchange of external tokens for a service account's token (RFC 8693)."""

    id: str
    user_id: str
    """ID of the service account."""
    issuer: str
    """Issuer of the external tokens (`iss`)."""
    audience: str
    """Required audience (`aud`)."""
    subject: str
    """Pattern for the subject (`sub`). `*` matches any text."""
    inserted_at: datetime
    claims: Mapping[str, str] = field(default_factory=dict)
    """Patterns for further claims. All must match."""
    minutes: int = 60
    """Lifetime of exchanged tokens in minutes."""
    keys: str | None = None
    """JSON Web Key Set of an issuer that the control plane cannot reach."""


@dataclass(frozen=True, slots=True)
class Claims:
    """Claims of a verified token."""

    issuer: str
    subject: str
    expires_at: datetime
    email: str = ""
    email_verified: bool = False
    name: str = ""
    groups: tuple[str, ...] | None = None
    """None: the token has no such claim."""
    every: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider for sign-in."""

    name: str
    url: str
    title: str = ""
    required: tuple[str, ...] = ()
    """Groups of which users need at least one. Empty: every user may sign in."""
