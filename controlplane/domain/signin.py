"""Signing in: what is remembered between its steps and of failures; what providers say."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any

FAILURES_WINDOW = timedelta(minutes=15)
MOST_FAILURES_OF_ACCOUNT = 10
MOST_FAILURES_OF_SOURCE = 50


class ChallengeKind(StrEnum):
    """What was begun and awaits its end."""

    OIDC = "oidc"
    DEVICE = "device"
    SETUP = "setup"


@dataclass(frozen=True, slots=True)
class Challenge:
    """A sign-in under way, found by the sha256 of a secret that only its client knows.

    `code` is what a person types to approve a device; `user_id` who did. `taken_at`: its one use.
    """

    id: str
    kind: ChallengeKind
    hash: str
    inserted_at: datetime
    expires_at: datetime
    code: str | None = None
    detail: Mapping[str, str] = field(default_factory=dict, repr=False)
    user_id: str | None = None
    taken_at: datetime | None = None


@dataclass(frozen=True, slots=True)
class Failures:
    """How often sign-ins by one account or from one source have failed, until the window ends.

    `id` is a sha256, so that the table names nobody.
    """

    id: str
    count: int
    until: datetime


@dataclass(frozen=True, slots=True)
class TrustRule:
    """Whose tokens are exchanged for one of a service account (RFC 8693).

    The token's issuer and audience have to be these, its subject has to fit the pattern, and every
    claim named has to fit its pattern. `keys`: the issuer's JWKS, where it cannot be reached.
    """

    id: str
    user_id: str
    issuer: str
    audience: str
    subject: str
    inserted_at: datetime
    claims: Mapping[str, str] = field(default_factory=dict)
    minutes: int = 60
    keys: str | None = None


@dataclass(frozen=True, slots=True)
class Claims:
    """What a verified token says. `groups` is None where it says nothing of groups."""

    issuer: str
    subject: str
    expires_at: datetime
    email: str = ""
    email_verified: bool = False
    name: str = ""
    groups: tuple[str, ...] | None = None
    every: Mapping[str, Any] = field(default_factory=dict, repr=False)


@dataclass(frozen=True, slots=True)
class Issuer:
    """An identity provider by which people sign in. `required` groups: one of them is needed."""

    name: str
    url: str
    title: str = ""
    required: tuple[str, ...] = ()
