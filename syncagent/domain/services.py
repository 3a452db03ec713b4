"""What the control plane wants of this cluster, and how far that has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from syncagent.domain.objects import ObjectRef


class DriftPolicy(StrEnum):
    """What to do when somebody else changes an owned object."""

    HEAL = "heal"
    REPORT = "report"
    IGNORE = "ignore"


class Removal(StrEnum):
    """What becomes of the objects of a service that is to go."""

    CASCADE = "cascade"
    ORPHAN = "orphan"


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a service is applied; `force` takes fields over from other field managers."""

    create_namespace: bool = False
    dry_run: bool = False
    paused: bool = False
    drift: DriftPolicy = DriftPolicy.HEAL
    keep_on_prune: bool = False
    force: bool = True
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One service as it should be: the bundle `digest` of `size` bytes in `namespace`."""

    name: str
    namespace: str
    digest: str
    size: int
    options: SyncOptions = field(default_factory=SyncOptions)


@dataclass(frozen=True, slots=True)
class Desired:
    """The newest word on one service: a spec, or how to remove it. Higher sequences win."""

    service_id: str
    sequence: int
    spec: ServiceSpec | None = None
    removal: Removal | None = None


class Phase(StrEnum):
    """How far a service is; see the wire's Phase."""

    FETCHING = "fetching"
    APPLYING = "applying"
    APPLIED = "applied"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class Problem:
    """Why something is not as desired, for people; `ref` is None if it concerns the whole."""

    message: str
    reason: str = ""
    ref: ObjectRef | None = None


@dataclass(frozen=True, slots=True)
class Stamps:
    """When each stage of one sequence was done, milliseconds since 1970; 0: not yet."""

    received: int = 0
    fetched: int = 0
    applied: int = 0
    healthy: int = 0


@dataclass(frozen=True, slots=True)
class Status:
    """What is said upwards about a service."""

    service_id: str
    sequence: int
    digest: str
    phase: Phase
    problems: tuple[Problem, ...]
    stamps: Stamps
    written: int = 0
    pruned: int = 0
