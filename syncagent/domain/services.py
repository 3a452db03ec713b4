"""What the control plane wants of this cluster, and how far that has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fleet.attestation import Attestation
from fleet.sealing import SealedSecret
from fleet.thresholds import Comparison
from syncagent.domain.changes import PlannedChange
from syncagent.domain.health import Health
from syncagent.domain.objects import ObjectKey, ObjectRef


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
class IgnoredDifference:
    """Fields of matching objects that others may set; an empty selector matches all.

    `pointers` are RFC 6901, `managers` names of field managers.
    """

    group: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    pointers: tuple[str, ...] = ()
    managers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class FieldCondition:
    """The text at `pointer` (RFC 6901) is one of these."""

    pointer: str
    any_of: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HealthRule:
    """The health of a kind's objects of which all `conditions` hold; the first such rule counts.

    `message` points to the text that says why.
    """

    group: str
    kind: str
    health: Health
    conditions: tuple[FieldCondition, ...] = ()
    message: str = ""


@dataclass(frozen=True, slots=True)
class SyncOptions:
    """How a service is applied; `force` takes fields over from other field managers.

    `wave_timeout_s` and `deletion_budget`: 0 means the agent's default. `confirmed` are the
    deletions that a person has confirmed, for this sequence only.
    """

    create_namespace: bool = False
    dry_run: bool = False
    paused: bool = False
    drift: DriftPolicy = DriftPolicy.HEAL
    keep_on_prune: bool = False
    force: bool = True
    namespace_labels: Mapping[str, str] = field(default_factory=dict)
    namespace_annotations: Mapping[str, str] = field(default_factory=dict)
    replace_immutable: bool = False
    ignored: tuple[IgnoredDifference, ...] = ()
    health_rules: tuple[HealthRule, ...] = ()
    wave_timeout_s: int = 0
    deletion_budget: int = 0
    confirmed: tuple[ObjectRef, ...] = ()


@dataclass(frozen=True, slots=True)
class MetricCheck:
    """An instant query in PromQL that has to hold, asked of `namespace/service:port`."""

    address: str
    query: str
    comparison: Comparison
    threshold: float


@dataclass(frozen=True, slots=True)
class Verification:
    """When a bundle is good: healthy for `soak_s`, with `max_restarts` of containers at most.

    `lifted`: a person wants what was found to be bad tried once more.
    """

    soak_s: int
    max_restarts: int = 0
    metric: MetricCheck | None = None
    lifted: bool = False


@dataclass(frozen=True, slots=True)
class Verified:
    """The end of a trial: the bundle is good, or the `reason` why not.

    `instead` is the bundle that is gone back to; empty: there is none.
    """

    service_id: str
    sequence: int
    digest: str
    ok: bool
    reason: str = ""
    instead: str = ""


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """One service as it should be: the bundle `digest` of `size` bytes in `namespace`.

    `attestation` says where the bundle is from, `secrets` are the values that it names.
    """

    name: str
    namespace: str
    digest: str
    size: int
    options: SyncOptions = field(default_factory=SyncOptions)
    commit: str = ""
    attestation: Attestation | None = None
    secrets: tuple[SealedSecret, ...] = ()


@dataclass(frozen=True, slots=True)
class Desired:
    """The newest word on one service: a spec, or how to remove it. Higher sequences win.

    `confirmed` are the deletions of a removal that a person has confirmed; a spec has its own.
    With a `verification` the agent finds out whether a spec's bundle is good.
    """

    service_id: str
    sequence: int
    spec: ServiceSpec | None = None
    removal: Removal | None = None
    confirmed: tuple[ObjectRef, ...] = ()
    verification: Verification | None = None

    @property
    def agreed(self) -> frozenset[ObjectKey]:
        """The objects whose deletion a person has confirmed, for this sequence."""
        named = self.spec.options.confirmed if self.spec else self.confirmed
        return frozenset(ref.key for ref in named)


class Phase(StrEnum):
    """How far a service is; see the wire's Phase."""

    FETCHING = "fetching"
    APPLYING = "applying"
    APPLIED = "applied"
    HEALTHY = "healthy"
    DEGRADED = "degraded"
    FAILED = "failed"
    REMOVED = "removed"
    AWAITING = "awaiting"


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
    """What is said upwards about a service.

    `awaiting` are deletions that a person must confirm, `message` says what is going on, `planned`
    what a dry run would do; None: it is none, or has not come to its end.
    """

    service_id: str
    sequence: int
    digest: str
    phase: Phase
    problems: tuple[Problem, ...]
    stamps: Stamps
    written: int = 0
    pruned: int = 0
    awaiting: tuple[ObjectRef, ...] = ()
    message: str = ""
    planned: tuple[PlannedChange, ...] | None = None
