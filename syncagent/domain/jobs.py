"""Jobs that the control plane requests, and their status."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from core.sealing import SealedSecret
from core.spec.jobs import JobPhase
from core.spec.objects import ObjectRef
from syncagent.domain.objects import KubeObject


@dataclass(frozen=True, slots=True)
class JobSpec:
    """One Job or Pod to run once in `namespace`; `follow`: stream its log while it runs.
    `secrets`: values for the placeholders in its environment. `own`: the agent itself requests it
    in its own namespace, where the allow-list does not apply.
    """

    command_id: str
    namespace: str
    manifest: KubeObject
    timeout_s: int
    follow: bool = False
    secrets: tuple[SealedSecret, ...] = ()
    own: bool = False


@dataclass(frozen=True, slots=True)
class JobStatus:
    """Reported status of a job; times are milliseconds since 1970, 0 if not reached."""

    command_id: str
    phase: JobPhase
    ref: ObjectRef | None = None
    message: str = ""
    exit_code: int = 0
    started_ms: int = 0
    finished_ms: int = 0
    log_tail: bytes = b""
    outputs: Mapping[str, str] = field(default_factory=dict)
