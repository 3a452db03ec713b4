"""Jobs that an agent runs."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.spec.bundle import KubeObject
from core.spec.fences import ServiceFence
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret


class JobPhase(StrEnum):
    """Progress of a job; the last three phases are final."""

    PENDING = "PENDING"
    """The agent has not started the job yet."""
    RUNNING = "RUNNING"
    """The job is running."""
    SUCCEEDED = "SUCCEEDED"
    """The job completed. This phase is final."""
    FAILED = "FAILED"
    """The job failed or timed out. This phase is final."""
    CANCELLED = "CANCELLED"
    """A user cancelled the job. This phase is final."""

    @property
    def final(self) -> bool:
        return self in (JobPhase.SUCCEEDED, JobPhase.FAILED, JobPhase.CANCELLED)


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One Job or Pod to run once."""

    command_id: str
    """The command that runs it."""
    namespace: str
    manifest: KubeObject
    timeout_s: int
    follow: bool = False
    """Stream its log while it runs."""
    secrets: tuple[SealedSecret, ...] = ()
    """Values for the placeholders in its environment."""
    fence: ServiceFence | None = None
    """The fence of the project that requests the job."""
    own: bool = False
    """The agent itself requests it in its own namespace, where the allow-list does not apply.
    Messages lack this field: no control plane can set it.
    """


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Status of a job."""

    command_id: str
    phase: JobPhase
    ref: ObjectRef | None = None
    """The Job or Pod; None before it is created."""
    message: str = ""
    exit_code: int = 0
    started_at: datetime | None = None
    finished_at: datetime | None = None
    log_tail: str = ""
    """The end of its log, after the job has ended."""
    outputs: Mapping[str, str] = field(default_factory=dict)
    """Termination messages by container."""
