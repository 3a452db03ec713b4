"""Sign-in: state between its steps, counts of failures, and claims of identity providers."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from ipaddress import ip_address, ip_network

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
    raw: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider for sign-in."""

    name: str
    url: str
    title: str = ""
    required: tuple[str, ...] = ()
    """Groups of which users need at least one. Empty: every user may sign in."""


def source_network(source: str) -> str:
    """The network to count for an address; an IPv6 user can use all addresses of a /64.

    An IPv4 address that a proxy writes as IPv6 (`::ffff:192.0.2.1`) counts as itself.
    """
    try:
        address = ip_address(source)
    except ValueError:
        return source
    if address.version == 4:
        return source
    mapped = address.ipv4_mapped
    return str(mapped or ip_network((address, 64), strict=False))
