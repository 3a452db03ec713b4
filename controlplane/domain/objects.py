"""Names of Kubernetes objects, and what changes in them, as agents tell it."""

from dataclasses import dataclass
from enum import StrEnum

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name): an object is the same in every version of its API."""


@dataclass(frozen=True, slots=True)
class ObjectName:
    """One object of a cluster; `namespace` is empty for cluster-wide kinds."""

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
    """A field (RFC 6901) with its values as JSON, cut; empty: it is not there."""

    pointer: str
    old: str
    new: str


class Change(StrEnum):
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
    """What would become of one object."""

    object: ObjectName
    change: Change
    fields: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class Plan:
    """What a service's dry run would do, of the desired state `sequence`. `id` is the service's."""

    id: str
    sequence: int
    changes: tuple[PlannedChange, ...]
