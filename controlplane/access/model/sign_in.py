"""Sign-in: state between its steps, counts of failures, and claims of identity providers."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fnmatch import fnmatchcase
from ipaddress import ip_address, ip_network

from controlplane.platform.names import check_length, check_text
from controlplane.platform.parts import part
from core.errors import Invalid

FAILURES_WINDOW = timedelta(minutes=15)
MAX_FAILURES_PER_ACCOUNT = 10
MAX_FAILURES_PER_SOURCE = 50
_MAX_KEYS_LENGTH = 64 << 10
_MAX_MINUTES = 24 * 60
_WILDCARDS = re.compile(r"[*?]|\[[^]]*\]")


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
class TrustRuleSpec:
    """Values of a trust rule that a user defines."""

    issuer: str
    """Issuer of the external tokens (`iss`), an https URL."""
    audience: str
    """Required audience (`aud`)."""
    subject: str
    """Pattern for the subject (`sub`). `*` matches any text."""
    claims: Mapping[str, str] = field(default_factory=dict)
    """Patterns for further claims. The token needs each of them, and all must match."""
    minutes: int = 60
    """Lifetime of exchanged tokens in minutes. Default: 60. Limit: 1,440."""
    keys: str | None = None
    """JSON Web Key Set of the issuer. Needed if the control plane cannot reach the issuer over
    https. Limit: 64 KiB."""

    def checked(self) -> "TrustRuleSpec":
        """Returns the spec. Raises Invalid if a value is not allowed."""
        if not self.issuer.startswith("https://"):
            raise Invalid("must begin with https://", field="issuer")
        for name in ("issuer", "audience", "subject"):
            check_text(getattr(self, name), name, 512)
        if not 1 <= self.minutes <= _MAX_MINUTES or len(self.claims) > 20:
            raise Invalid(
                f"must be 1 to {_MAX_MINUTES} minutes, with at most 20 claims", field="minutes"
            )
        patterns = (self.subject, *self.claims.values())
        if all(_matches_everything(pattern) for pattern in patterns):
            raise Invalid(
                "specify a subject or claims: this rule would trust every token", field="subject"
            )
        return replace(self, keys=check_length(self.keys or "", "keys", _MAX_KEYS_LENGTH) or None)

    def matches(self, claims: "Claims") -> bool:
        """Returns whether a token with these claims matches. An absent claim never matches."""
        return fnmatchcase(claims.subject, self.subject) and all(
            name in claims.every and fnmatchcase(str(claims.every[name]), pattern)
            for name, pattern in self.claims.items()
        )


@dataclass(frozen=True, slots=True)
class TrustRule:
    """Rule for the exchange of external tokens for a service account's token (RFC 8693)."""

    id: str
    user_id: str
    """ID of the service account."""
    inserted_at: datetime
    spec: TrustRuleSpec = part(TrustRuleSpec)


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
    every: Mapping[str, object] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider for sign-in."""

    name: str
    url: str
    title: str = ""
    required: tuple[str, ...] = ()
    """Groups of which users need at least one. Empty: every user may sign in."""


def source_network(source: str) -> str:
    """The network to count for an address; an IPv6 user can use all addresses of a /64."""
    try:
        address = ip_address(source)
    except ValueError:
        return source
    return source if address.version == 4 else str(ip_network((address, 64), strict=False))


def _matches_everything(pattern: str) -> bool:
    """Returns whether a pattern has nothing but wildcards."""
    return _WILDCARDS.sub("", pattern) == ""
