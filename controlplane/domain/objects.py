"""Names of Kubernetes objects and their changes, as agents report them."""

from dataclasses import dataclass
from enum import StrEnum

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name): an object is the same in every version of its API."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """One object of a cluster; `namespace` is empty for cluster-scoped kinds."""

    group: str
    version: str
    kind: str
    namespace: str
    name: str

    @property
    def key(self) -> ObjectKey:
        return (self.group, self.kind, self.namespace, self.name)

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}".replace(" /", " ")


@dataclass(frozen=True, slots=True)
class FieldChange:
    """A field (RFC 6901) with its old and new value as JSON,
    truncated; empty if it does not exist.
    """

    pointer: str
    old: str
    new: str


class PlannedAction(StrEnum):
    """Action of an apply on an object."""

    CREATE = "CREATE"
    """Create the object."""
    UPDATE = "UPDATE"
    """Change the object in place."""
    REPLACE = "REPLACE"
    """Delete and recreate the object, since an immutable field differs."""
    DELETE = "DELETE"
    """Delete the object."""


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """The planned action on one object."""

    object: ObjectName
    change: PlannedAction
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Result of a service's dry run of the desired state `sequence`. `id` is the service's."""

    id: str
    sequence: int
    changes: tuple[PlannedChange, ...]
