"""Options for the sync of a service, and the removal of its objects."""

from dataclasses import dataclass
from enum import StrEnum


class Removal(StrEnum):
    """Handling of a deleted service's objects."""

    CASCADE = "cascade"
    """Delete the objects, then the service."""
    ORPHAN = "orphan"
    """Keep the objects and delete only the service."""


class DriftPolicy(StrEnum):
    """Reaction of the agent to changes by others."""

    HEAL = "heal"
    """Reverts the change."""
    REPORT = "report"
    """Reports the change and leaves it."""
    IGNORE = "ignore"
    """Ignores the change."""


@dataclass(frozen=True, slots=True)
class IgnoredDifference:
    """Fields of matching objects that others may set; an empty selector matches all."""

    group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    pointers: tuple[str, ...] = ()
    """JSON pointers of the ignored fields (RFC 6901)."""
    managers: tuple[str, ...] = ()
    """Field managers whose fields are ignored."""
