"""Health of objects, and rules for it."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """Matches if the text at `pointer` is one of `any_of`."""

    pointer: str
    """JSON pointer (RFC 6901); `/status/conditions/Ready/status` finds the condition of a type."""
    any_of: tuple[str, ...]
