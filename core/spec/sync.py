"""Options for the sync of a service, and the removal of its objects."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from core.spec.health import HealthRule
from core.spec.objects import ObjectRef


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
    """Fields of matching objects that others may set. An empty condition matches everything."""

    group: str = ""
    """API group."""
    kind: str = ""
    """Kind."""
    namespace: str = ""
    """Namespace."""
    name: str = ""
    """Name."""
    pointers: tuple[str, ...] = ()
    """JSON pointers of ignored fields (RFC 6901). Limit: 64."""
    managers: tuple[str, ...] = ()
    """Field managers whose fields are ignored. Limit: 64."""


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """Options for applying a service."""

    create_namespace: bool = True
    """True if the agent creates the namespace. Default: true."""
    drift: DriftPolicy = DriftPolicy.HEAL
    """Reaction of the agent to changes by others. Default: `HEAL`."""
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the created namespace."""
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the created namespace."""
    keep_on_prune: bool = False
    """True if objects that are no longer in Git stay in the cluster. Default: false."""
    fail_on_conflict: bool = False
    """True if the sync fails instead of taking over fields of other field managers. Default:
    false."""
    replace_immutable: bool = False
    """True if the agent deletes and recreates objects whose immutable fields differ. Default:
    false."""
    ignored: tuple[IgnoredDifference, ...] = ()
    """Fields that Towline ignores. Limit: 256."""
    health_rules: tuple[HealthRule, ...] = ()
    """Health rules for custom resources. The first rule with all conditions met determines the
    health. Limit: 64."""
    wave_timeout_s: int = 0
    """Seconds for a sync wave to become healthy. Default: 0, the agent's default. Limit: 86,400."""
    deletion_budget: int = 0
    """Maximum number of deletions in one sync without a confirmation. Default: 0, the agent's
    default. Limit: 1,000,000."""


@dataclass(frozen=True, slots=True)
class ObjectSelection:
    """Objects of a service that one sync applies, without hooks and without all other objects."""

    objects: tuple[ObjectRef, ...]
    """Objects in the manifests or in the cluster. Limit: 1,000."""
    prune: bool = False
    """True to delete those that the manifests no longer contain. Default: false."""
