"""Secrets: named values with versions, which services reference and only agents decrypt."""

import re
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.platform.limits import check_count, check_range
from controlplane.platform.parts import NamedRow
from controlplane.secrets.model.generated import ValueGenerator
from controlplane.secrets.model.rotation import Rotation, RotationPlan
from controlplane.secrets.model.secret_source import SecretSource
from core.errors import Invalid

MAX_VALUE_LENGTH = 512 * 1024
MAX_USES = 200
"""Maximum secrets of one service; the wire protocol has room for 256 values."""
MAX_VERSIONS = 100
"""Maximum versions of one secret that still hold a value."""
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,126}[A-Za-z0-9])?")
NAME_SCHEMA = {"type": "string", "pattern": f"^{_NAME.pattern}$"}
"""JSON Schema of names, as `check_name` takes them."""
_MIN_REFRESH, _MAX_REFRESH = 10, 7 * 24 * 3600


@dataclass(frozen=True, slots=True)
class Secret(NamedRow):
    """A named value; its versions are separate rows.

    If reading the source fails, the last good value stays.
    """

    project_id: str = DEFAULT_PROJECT
    description: str = ""
    """Free text."""
    current: int = 0
    """Version that services follow. Empty before the first value."""
    newest: int = 0
    """Highest version number. Empty before the first value."""
    source: SecretSource | None = None
    """External source. None for a value stored here."""
    refresh_s: int = 300
    """Seconds between two reads of the source."""
    due_at: datetime | None = None
    """Time of the next read of the source."""
    refreshed_at: datetime | None = None
    """Time of the last read of the source."""
    problem: str = ""
    """Error of the last read of the source. Empty if it succeeded."""
    plan: RotationPlan | None = None
    """Plan for moving services to a new value. None: they get it at once."""
    rotation: Rotation | None = None
    """Latest rotation. None if there was none."""
    generate: ValueGenerator | None = None
    """Form of the generated value. None if the value was set or has a source."""
    sealed_value: str = ""
    """Value that only this installation can open, as `towline secrets seal` printed it. Empty for
    other values."""

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
    """Version number, from 1."""
    inserted_at: datetime
    actor: str
    """E-mail address of the user who saved the value, or name of the source."""
    sealed: bytes | None = field(default=None, repr=False)
    revoked_at: datetime | None = None
    """Time of revocation. None while the value exists."""

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
    check_count(len(value), "value", MAX_VALUE_LENGTH, "bytes")
    return value


def check_refresh(seconds: int) -> int:
    """Checks the refresh interval of a source. Raises Invalid if it is too short or too long."""
    check_range(seconds, "refreshSeconds", _MIN_REFRESH, _MAX_REFRESH, "s")
    return seconds
