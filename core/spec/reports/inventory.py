"""Inventory of a service: its applied objects and their descendants."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.spec.health import HealthState
from core.spec.objects import ObjectKey, ObjectRef


@dataclass(frozen=True, slots=True)
class ObservedComponent:
    """One object of an inventory."""

    ref: ObjectRef
    uid: str
    owner_uid: str
    """The uid of its controller; empty for an applied object."""
    health: HealthState | None
    """Its health; None for a health that this version does not know."""
    message: str = ""
    """Explanation of the health, for people."""
    reason: str = ""
    """Kubernetes' reason; empty if there is none."""
    synced: bool = False
    """The live object has the desired fields."""
    images: tuple[str, ...] = ()
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    hash: str = ""
    """Digest of the desired object that was applied."""
    finalizers: tuple[str, ...] = ()
    """Finalizers that hold an object that is being deleted."""


@dataclass(frozen=True, slots=True)
class InventoryChange:
    """Components that are new, changed or gone since the last report."""

    service_id: str
    complete: bool
    """This is the whole inventory and replaces earlier reports."""
    present: tuple[ObservedComponent, ...] = ()
    gone: tuple[ObjectRef, ...] = ()
    fresh: frozenset[ObjectKey] = frozenset()
    """Keys of present components that were not reported before."""
