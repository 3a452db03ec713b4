"""Secrets: named values in versions, which services refer to and only agents open."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.access import Kind, Target
from controlplane.domain.rotation import Rotation
from fleet.errors import Invalid

LONGEST_VALUE = 512 * 1024
MOST_USES = 200
"""Of one service; the wire has room for 256 values."""
MOST_VERSIONS = 100
"""Of one secret that still hold a value."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
_LONGEST_PATH = 512
_SHORTEST_REFRESH, _LONGEST_REFRESH = 10, 7 * 24 * 3600


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
    """A value that is kept elsewhere.

    VAULT: `store` is a Vault of the settings, `path` below its prefix, `key` in that secret.
    KUBERNETES: `store` is a cluster's handle, `path` is `namespace/name`, `key` one of its data;
    read as the service account `reader_id`. ENVIRONMENT: `key` is a variable without the prefix.
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
        """Itself. Invalid: names what is missing or too long."""
        if not self.key:
            raise Invalid("must name one value", field="source.key")
        if self.kind is not SourceKind.ENVIRONMENT and not (self.store and self.path):
            raise Invalid(f"{self.kind.value} needs store and path", field="source.store")
        if self.kind is SourceKind.KUBERNETES and not self.reader_id:
            raise Invalid("name the service account to read as", field="source.readerId")
        if max(map(len, (self.key, self.store, self.path))) > _LONGEST_PATH:
            raise Invalid(f"{_LONGEST_PATH} characters at most", field="source.path")
        if not all(part and part not in (".", "..") for part in (self.path or "x").split("/")):
            raise Invalid("must not have empty parts, '.' or '..'", field="source.path")
        return self


@dataclass(frozen=True, slots=True)
class Secret:
    """A named value; its versions are rows of their own.

    `current` is the version that consumers follow, `newest` the highest number given; 0: none yet.
    With a `source` the value is read from there every `refresh_s`, next at `due_at`; `problem`
    says why that failed, while the last good value is kept.
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
    def target(self) -> Target:
        """Where the secret stands."""
        return Target.within(Kind.SECRET, self.project_id, self.id, self.name)

    @property
    def rotating(self) -> bool:
        """Whether a rotation of it goes on."""
        return self.rotation is not None and self.rotation.active


@dataclass(frozen=True, slots=True)
class SecretVersion:
    """One value that a secret has had. A revoked version holds none any more."""

    id: str
    secret_id: str
    number: int
    inserted_at: datetime
    actor: str
    sealed: bytes | None = field(default=None, repr=False)
    revoked_at: datetime | None = None

    @property
    def context(self) -> str:
        """What its sealed value is bound to."""
        return f"secret:{self.id}"


@dataclass(frozen=True, slots=True)
class SecretUse:
    """A service whose objects name a secret's value as `${towline.secret:name}`.

    `version` is what its agent is to have since the service's `sequence`; a pinned use keeps it.
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
    """A name that placeholders can have. Invalid: it is none."""
    if not _NAME.fullmatch(name):
        raise Invalid(
            f"{name[:80]!r} is not a name of letters, digits, '.', '_' and '-' with 128 at most",
            field=name_of,
        )
    return name


def check_value(value: bytes) -> bytes:
    """A value that can be kept. Invalid: empty or too long; never says what it is."""
    if not value:
        raise Invalid("must not be empty", field="value")
    if len(value) > LONGEST_VALUE:
        raise Invalid(f"{len(value):,} bytes, {LONGEST_VALUE:,} at most", field="value")
    return value


def check_refresh(seconds: int) -> int:
    """How often a source is read. Invalid: too often or too seldom."""
    if not _SHORTEST_REFRESH <= seconds <= _LONGEST_REFRESH:
        raise Invalid(f"{_SHORTEST_REFRESH} to {_LONGEST_REFRESH} s", field="refreshSeconds")
    return seconds


Wanted = Mapping[str, tuple[str, int | None]]
"""What a service is to use: by placeholder, the secret's id and a version to stay at, if any."""
