"""Secrets: named values with versions, which services reference and only agents decrypt."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.access import Resource, ResourceKind
from controlplane.domain.rotation import Rotation
from core.errors import Invalid

MAX_VALUE_LENGTH = 512 * 1024
MAX_USES = 200
"""Maximum secrets of one service; the wire protocol has room for 256 values."""
MAX_VERSIONS = 100
"""Maximum versions of one secret that still hold a value."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_MAX_PATH_LENGTH = 512
_MIN_REFRESH, _MAX_REFRESH = 10, 7 * 24 * 3600


class SourceKind(StrEnum):
    """External store of a secret's value."""

    VAULT = "vault"
    """A HashiCorp Vault named in the settings."""
    KUBERNETES = "kubernetes"
    """A Secret in a cluster."""
    ENVIRONMENT = "environment"
    """An environment variable of the control plane."""


@dataclass(frozen=True, slots=True)
class SecretSource:
    """Location of a value in an external store.

    VAULT: `store` is a Vault of the settings, `path` is relative to its prefix, `key` is a key of
    that secret. KUBERNETES: `store` is a cluster's handle, `path` is `namespace/name`, `key` is a
    key of its data, and the control plane reads it as the service account `reader_id`. ENVIRONMENT:
    `key` is a variable without the prefix.
    """

    kind: SourceKind
    key: str
    store: str = ""
    path: str = ""
    reader_id: str = ""

    def __str__(self) -> str:
        place = "/".join(part for part in (self.store, self.path) if part)
        return f"{self.kind.value}:{place}#{self.key}" if place else f"{self.kind.value}:{self.key}"

    def checked(self) -> "SecretSource":
        """Returns itself. Raises Invalid, naming the missing or oversized field."""
        if not self.key:
            raise Invalid("must name one value", field="source.key")
        if self.kind is not SourceKind.ENVIRONMENT and not (self.store and self.path):
            raise Invalid(f"{self.kind.value} needs store and path", field="source.store")
        if self.kind is SourceKind.KUBERNETES and not self.reader_id:
            raise Invalid(
                "is required: name the service account that reads the Secret",
                field="source.readerId",
            )
        if max(map(len, (self.key, self.store, self.path))) > _MAX_PATH_LENGTH:
            raise Invalid(f"{_MAX_PATH_LENGTH} characters at most", field="source.path")
        if not all(part and part not in (".", "..") for part in (self.path or "x").split("/")):
            raise Invalid("must not have empty parts, '.' or '..'", field="source.path")
        return self


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


Wanted = Mapping[str, tuple[str, int | None]]
"""A service's use of a secret: by placeholder, the secret's id and the pinned version, if any."""
