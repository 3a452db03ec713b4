"""Parts of a service that nouns above it store: its secrets and its contexts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A service whose objects reference a secret as `${towline.secret:name}`.

    Its agent receives `version` since the service's `sequence`.
    """

    id: str
    secret_id: str
    """ID of the secret."""
    service_id: str
    """ID of the service."""
    name: str
    """Name in the manifests, as in `${towline.secret:NAME}`."""
    version: int
    """Version that the service uses."""
    sequence: int
    changed_at: datetime
    """Time at which the service got this version."""
    pinned: bool = False
    """True if the service does not follow new versions."""


UsedSecrets = Mapping[str, tuple[str, int | None]]
"""Secrets that a service uses: id and pinned version, if any, by placeholder."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretValue:
    """A value that objects reference; `version` changes exactly when `plain` does. Has no repr."""

    version: str
    plain: bytes


@dataclass(frozen=True, slots=True)
class ContextBinding:
    """A service whose templates may use a context.

    `may_reveal`: the user who bound it could use the secrets of the context's project.
    """

    id: str
    context_id: str
    service_id: str
    may_reveal: bool = False
