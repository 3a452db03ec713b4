"""Plan of a dry run."""

from dataclasses import dataclass
from enum import StrEnum

from core.spec.objects import FieldChange, ObjectRef


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

    object: ObjectRef
    """The object."""
    change: PlannedAction
    """Kind of change."""
    fields: tuple[FieldChange, ...] = ()
    """Fields that would change in an update; possibly not all of them."""
