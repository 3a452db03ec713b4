"""Reports of agents, as values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime

from controlplane.clusters.model.cluster import AgentMode
from controlplane.clusters.model.commands import CommandState
from controlplane.services.model.service import ComponentState, Problem
from core.spec.attestation import Attestation
from core.spec.facts import ClusterFacts
from core.spec.jobs import JobPhase
from core.spec.objects import FieldChange, ObjectKey, ObjectRef
from core.spec.plan import PlannedChange
from core.spec.status import Phase
from core.spec.verification import VerificationResult


@dataclass(frozen=True, slots=True)
class AgentHello:
    """The agent's description of itself and its cluster at connect, with the address it connects
    from.
    """

    instance: str
    agent_version: str
    about: ClusterFacts
    mode: AgentMode = AgentMode.MANAGED
    sealing_key: bytes | None = None


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Progress of one service; times are None until their stage is done.

    `planned` is the result of a dry run; None if there is none, or if it has not finished.
    """

    service_id: str
    sequence: int
    digest: str
    phase: Phase
    problems: tuple[Problem, ...] = ()
    received_at: datetime | None = None
    fetched_at: datetime | None = None
    applied_at: datetime | None = None
    healthy_at: datetime | None = None
    written: int = 0
    pruned: int = 0
    awaiting: tuple[ObjectRef, ...] = ()
    message: str = ""
    planned: tuple[PlannedChange, ...] | None = None


@dataclass(frozen=True, slots=True)
class ObservedComponent:
    """An object that the agent owns, or a descendant of one."""

    key: ObjectKey
    version: str
    uid: str
    owner_uid: str
    state: ComponentState | None
    message: str
    synced: bool
    images: tuple[str, ...]
    labels: Mapping[str, str] = field(default_factory=dict)
    generation: int = 0
    hash: str = ""
    finalizers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class InventoryReport:
    """Objects of a service: all of them if `complete`, else only changes."""

    service_id: str
    complete: bool
    present: tuple[ObservedComponent, ...] = ()
    gone: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True)
class RemoteRenderResult:
    """Result of a render in a cluster; see `core.spec.source.RenderedBundle`."""

    digest: str
    source: str
    reads: tuple[str, ...]
    attestation: Attestation | None = None


@dataclass(frozen=True, slots=True)
class CommandReport:
    """Result of a command; `made` is set for renders."""

    command_id: str
    state: CommandState
    message: str
    made: RemoteRenderResult | None = None


@dataclass(frozen=True, slots=True)
class DriftReport:
    """A change or deletion of an owned object by another writer."""

    service_id: str
    key: ObjectKey
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool
    changes: tuple[FieldChange, ...] = ()


@dataclass(frozen=True, slots=True)
class JobReport:
    """Progress of a job; times are None until they are known."""

    command_id: str
    phase: JobPhase
    object: ObjectRef | None
    message: str
    exit_code: int
    started_at: datetime | None
    finished_at: datetime | None
    log_tail: str
    outputs: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class MirrorReport:
    """A service that an autonomous agent defines. `removed`: it no longer does."""

    service_id: str
    name: str
    namespace: str
    repository: str
    ref: str
    folder: str
    commit: str
    digest: str
    sequence: int
    removed: bool
    error: str


Body = (
    StatusReport
    | InventoryReport
    | CommandReport
    | DriftReport
    | JobReport
    | ClusterFacts
    | MirrorReport
    | VerificationResult
)


@dataclass(frozen=True, slots=True)
class Report:
    """One numbered report of an agent."""

    number: int
    at: datetime
    body: Body | None = None
