"""What an agent tells of its cluster, as values."""

from dataclasses import dataclass, field
from datetime import datetime

from controlplane.domain.commands import CommandState
from controlplane.domain.services import ComponentState, Phase, Problem

ObjectKey = tuple[str, str, str, str]
"""(group, kind, namespace, name)."""


@dataclass(frozen=True, slots=True)
class Facts:
    """What an agent says of itself and its cluster when it connects."""

    instance: str
    agent_version: str
    kubernetes_version: str
    distribution: str
    nodes: int


@dataclass(frozen=True, slots=True)
class StatusReport:
    """How far the agent is with one service; times are None until the stage is done."""

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


@dataclass(frozen=True, slots=True)
class ObservedComponent:
    """An object that the agent owns or that grew from one."""

    key: ObjectKey
    version: str
    uid: str
    owner_uid: str
    state: ComponentState | None
    message: str
    synced: bool
    images: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InventoryReport:
    """Objects of a service: all of them if `complete`, else what changed."""

    service_id: str
    complete: bool
    present: tuple[ObservedComponent, ...] = ()
    gone: tuple[ObjectKey, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandReport:
    """How a command ended."""

    command_id: str
    state: CommandState
    message: str


@dataclass(frozen=True, slots=True)
class DriftReport:
    """Somebody else changed or deleted an owned object."""

    service_id: str
    key: ObjectKey
    manager: str
    paths: tuple[str, ...]
    deleted: bool
    healed: bool


@dataclass(frozen=True, slots=True)
class Report:
    """One numbered report of an agent."""

    number: int
    at: datetime
    body: StatusReport | InventoryReport | CommandReport | DriftReport | None = field(default=None)
