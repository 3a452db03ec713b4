"""A job that the control plane asks for, and how far it has come."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from fleet.sealing import SealedSecret
from syncagent.domain.objects import KubeObject, ObjectRef


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One Job or Pod to be run once in `namespace`; `follow`: its log is sent while it runs.

    `secrets` are what its environment names by placeholders. `own`: the agent itself asks for it,
    in its own namespace, where the allow-list need not hold.
    """

    command_id: str
    namespace: str
    manifest: KubeObject
    timeout_s: int
    follow: bool = False
    secrets: tuple[SealedSecret, ...] = ()
    own: bool = False


class JobPhase(StrEnum):
    """How far a job is; the last three are final."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class JobStatus:
    """What is said upwards about a job; times are milliseconds since 1970, 0: not yet."""

    command_id: str
    phase: JobPhase
    ref: ObjectRef | None = None
    message: str = ""
    exit_code: int = 0
    started_ms: int = 0
    finished_ms: int = 0
    log_tail: bytes = b""
    outputs: Mapping[str, str] = field(default_factory=dict)
