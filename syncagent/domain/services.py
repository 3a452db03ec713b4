"""Desired state of the cluster's services, and their status."""

from dataclasses import dataclass, field

from core.sealing import SealedSecret
from core.spec.attestation import Attestation
from core.spec.objects import ObjectKey, ObjectRef
from core.spec.plan import PlannedChange
from core.spec.status import Phase
from core.spec.sync import Removal, SyncOptions
from core.spec.verification import Verification


@dataclass(frozen=True, slots=True)
class ServiceSpec:
    """Spec of one service: the bundle `digest` of `size` bytes in `namespace`.
    `attestation` proves the bundle's origin; `secrets` are the values for its placeholders.
    `confirmed`: the deletions that a person has confirmed for this sequence.
    """

    name: str
    namespace: str
    digest: str
    size: int
    options: SyncOptions = field(default_factory=SyncOptions)
    commit: str = ""
    attestation: Attestation | None = None
    secrets: tuple[SealedSecret, ...] = ()
    dry_run: bool = False
    paused: bool = False
    confirmed: tuple[ObjectRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Desired:
    """Desired state of one service: a spec or a removal. Higher sequences win.
    `confirmed`: the confirmed deletions of a removal; a spec has its own. `verification`: the agent
    verifies the spec's bundle. `lifted`: a person wants to retry a bundle that failed it.
    """

    service_id: str
    sequence: int
    spec: ServiceSpec | None = None
    removal: Removal | None = None
    confirmed: tuple[ObjectRef, ...] = ()
    verification: Verification | None = None
    lifted: bool = False

    @property
    def agreed(self) -> frozenset[ObjectKey]:
        """The objects whose deletion a person has confirmed for this sequence."""
        named = self.spec.confirmed if self.spec else self.confirmed
        return frozenset(ref.key for ref in named)


@dataclass(frozen=True, slots=True)
class Problem:
    """Reason why something is not in sync, for people; `ref` is None for the whole service."""

    message: str
    reason: str = ""
    ref: ObjectRef | None = None


@dataclass(frozen=True, slots=True)
class StageTimes:
    """Completion times of the stages of one sequence, milliseconds since 1970; 0 if not reached."""

    received: int = 0
    fetched: int = 0
    applied: int = 0
    healthy: int = 0


@dataclass(frozen=True, slots=True)
class SyncStatus:
    """Reported status of a service.
    `awaiting`: deletions that a person must confirm. `message`: the present activity. `planned`:
    result of a dry run; None if it is not one or has not finished.
    """

    service_id: str
    sequence: int
    digest: str
    phase: Phase
    problems: tuple[Problem, ...]
    stamps: StageTimes
    written: int = 0
    pruned: int = 0
    awaiting: tuple[ObjectRef, ...] = ()
    message: str = ""
    planned: tuple[PlannedChange, ...] | None = None
