"""Health of objects, and rules for it."""

from dataclasses import dataclass
from enum import IntEnum


class HealthState(IntEnum):
    """Health of an object, in ascending order of severity for summaries."""

    HEALTHY = 1
    PAUSED = 2
    """Suspended."""
    PROGRESSING = 3
    """Not healthy yet."""
    MISSING = 4
    """In the desired state, but not in the cluster."""
    FAILED = 5


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """Matches if the text at `pointer` is one of `any_of`."""

    pointer: str
    """JSON pointer (RFC 6901); `/status/conditions/Ready/status` finds the condition of a type."""
    any_of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HealthRule:
    """Health of the objects of a kind that meet all conditions."""

    group: str
    """API group; empty for the core group."""
    kind: str
    health: HealthState
    conditions: tuple[FieldCondition, ...] = ()
    message: str = ""
    """JSON pointer (RFC 6901) to the text of the reason; empty without one."""
