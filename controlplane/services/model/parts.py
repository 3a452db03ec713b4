"""Parts of a service that nouns above it store: its secrets and its contexts."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A service whose objects reference a secret as `${towline.secret:name}`.

    Its agent receives `version` since the service's `sequence`; a pinned use keeps its version.
    """

    id: str
    secret_id: str
    service_id: str
    name: str
    version: int
    sequence: int
    changed_at: datetime
    pinned: bool = False


Wanted = Mapping[str, tuple[str, int | None]]
"""A service's use of a secret: by placeholder, the secret's id and the pinned version, if any."""


@dataclass(frozen=True, slots=True, repr=False)
class SecretValue:
    """A value that objects reference; `version` changes exactly when `plain` does. Has no repr."""

    version: str
    plain: bytes


@dataclass(frozen=True, slots=True)
class ContextBinding:
    """A service whose templates may use a context."""

    id: str
    context_id: str
    service_id: str
