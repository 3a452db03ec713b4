"""Options for the sync of a service, and the removal of its objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.spec.health import HealthRule


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


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options for applying a service."""

    create_namespace: bool = True
    """Create the service's namespace."""
    drift: DriftPolicy = DriftPolicy.HEAL
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the created namespace."""
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the created namespace."""
    keep_on_prune: bool = False
    """Keep objects that are no longer in the bundle."""
    fail_on_conflict: bool = False
    """Fail on a field of another manager instead of taking it over."""
    replace_immutable: bool = False
    """Delete and recreate objects that cannot be changed in place."""
    ignored: tuple[IgnoredDifference, ...] = ()
    health_rules: tuple[HealthRule, ...] = ()
    """Health rules of custom resources; the first rule that matches an object wins."""
    wave_timeout_s: int = 0
    """Time for a wave to become healthy, in seconds; 0 means the agent's default."""
    deletion_budget: int = 0
    """Maximum deletions of one sync without confirmation; 0 means the agent's default."""
