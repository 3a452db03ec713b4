"""Health of objects, and rules for it."""

from dataclasses import dataclass
from enum import IntEnum


class HealthState(IntEnum):
    """Health of an object."""

    HEALTHY = 1
    PAUSED = 2
    """Suspended."""
    PROGRESSING = 3
    """Not healthy yet."""
    MISSING = 4
    """In the desired state, but not in the cluster."""
    FAILED = 5
    UNKNOWN = 6
    """The status expresses no health. An unknown health opens no gate."""


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """A condition on one field of an object."""

    pointer: str
    """JSON pointer of the field (RFC 6901). `/status/conditions/Ready/status` finds the condition
    of a type."""
    any_of: tuple[str, ...]
    """Values that meet the condition."""


@dataclass(frozen=True, slots=True)
class HealthRule:
    """Health of the objects of a kind that meet all conditions."""

    group: str
    """API group of the objects. Empty for the core group."""
    kind: str
    """Kind of the objects."""
    health: HealthState
    """Health if all conditions are met."""
    conditions: tuple[FieldCondition, ...] = ()
    """Conditions."""
    message: str = ""
    """JSON pointer of the field with the human-readable message. Empty without one."""
