"""Drift of objects from their desired state."""

from dataclasses import dataclass

from core.spec.objects import FieldChange, ObjectRef


@dataclass(frozen=True, slots=True)
class DriftFound:
    """Another client changed or deleted an owned object."""

    service_id: str
    ref: ObjectRef
    manager: str
    """Field manager of the change; empty if it is unknown."""
    paths: tuple[str, ...]
    """Changed fields, for people."""
    deleted: bool
    healed: bool
    """The agent has reverted the change."""
    changes: tuple[FieldChange, ...] = ()
    """Changed fields; the old value is the desired one, the new value is the foreign one."""
