"""One-time commands for agents, stored until their result is known."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from core.identity import ClusterId, ServiceId
from core.json_object import JsonMapping

UPLOADED_DIGEST = "uploaded"
"""Name of the digest of an uploaded bundle in the payload of a render command."""


class CommandKind(StrEnum):
    """Kinds of commands."""

    SYNC_NOW = "sync-now"
    TERMINATE = "terminate"
    RUN_JOB = "run-job"
    CANCEL_JOB = "cancel-job"
    UPGRADE = "upgrade"
    RENDER = "render"
    FREEZE = "freeze"


class CommandState(StrEnum):
    """State of a command."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Command:
    """A command that is sent to the agent until it answers; the agent executes each id once.

    `payload` depends on the kind: `service` (sync and terminate: the service's id at the agent),
    `objects`, `prune` and `actor` (sync of selected objects only),
    `job` (id of the job to cancel), `version` and `image` (upgrade),
    `box` (render: the encrypted order in base64, and `uploaded`, the digest of the bundle that the
    agent uploaded for it). The result of a render replaces both with `digest`, `source` and
    `reads`; `statement` (freeze). A command that runs a job has the job's id.
    """

    id: str
    cluster_id: ClusterId
    kind: CommandKind
    inserted_at: datetime
    service_id: ServiceId | None = None
    state: CommandState = CommandState.WAITING
    message: str = ""
    finished_at: datetime | None = None
    payload: JsonMapping = field(default_factory=dict)
