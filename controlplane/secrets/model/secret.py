"""Secrets: named values with versions, which services reference and only agents decrypt."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.authorization import Resource, ResourceKind
from controlplane.secrets.model.rotation import Rotation
from controlplane.secrets.model.secret_source import SecretSource
from core.errors import Invalid

MAX_VALUE_LENGTH = 512 * 1024
MAX_USES = 200
"""Maximum secrets of one service; the wire protocol has room for 256 values."""
MAX_VERSIONS = 100
"""Maximum versions of one secret that still hold a value."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_MIN_REFRESH, _MAX_REFRESH = 10, 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Secret:
    """A named value; its versions are separate rows.

    `current` is the version that consumers follow, `newest` the highest version number; 0: none
    yet. With a `source` the value is read from there every `refresh_s`, next at `due_at`. If
    reading fails, the last good value stays and `problem` holds the reason.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    project_id: str | None = None
    description: str = ""
    current: int = 0
    newest: int = 0
    source: SecretSource | None = None
    refresh_s: int = 300
    due_at: datetime | None = None
    refreshed_at: datetime | None = None
    problem: str = ""
    rotation: Rotation | None = None

    @property
    def target(self) -> Resource:
        """Returns the secret's location for authorization."""
        return Resource.within(ResourceKind.SECRET, self.project_id, self.id, self.name)

    @property
    def rotating(self) -> bool:
        """Returns whether a rotation of the secret is running."""
        return self.rotation is not None and self.rotation.active


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One version of a secret's value. A revoked version holds no value."""

    id: str
    secret_id: str
    number: int
    inserted_at: datetime
    actor: str
    sealed: bytes | None = field(default=None, repr=False)
    revoked_at: datetime | None = None

    @property
    def context(self) -> str:
        """Returns the associated data that the encrypted value is bound to."""
        return f"secret:{self.id}"


def check_name(name: str, name_of: str = "name") -> str:
    """Checks a name for use in placeholders. Raises Invalid."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:80]!r} is not a valid name: use at most 128 letters, digits, '.', '_' and '-'",
            field=name_of,
        )
    return name


def check_value(value: bytes) -> bytes:
    """Checks a value. Raises Invalid if it is empty or too long; the error never contains the
    value.
    """
    if not value:
        raise Invalid("must not be empty", field="value")
    if len(value) > MAX_VALUE_LENGTH:
        raise Invalid(f"{len(value):,} bytes, {MAX_VALUE_LENGTH:,} at most", field="value")
    return value


def check_refresh(seconds: int) -> int:
    """Checks the refresh interval of a source. Raises Invalid if it is too short or too long."""
    if not _MIN_REFRESH <= seconds <= _MAX_REFRESH:
        raise Invalid(f"{_MIN_REFRESH} to {_MAX_REFRESH} s", field="refreshSeconds")
    return seconds
