"""Things that an agent is asked to do once: rows until their result is known."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any

from fleet.identity import ClusterId, ServiceId


class CommandKind(StrEnum):
    """What can be asked of an agent."""

    SYNC_NOW = "sync-now"
    TERMINATE = "terminate"
    RUN_JOB = "run-job"
    CANCEL_JOB = "cancel-job"
    UPGRADE = "upgrade"
    RENDER = "render"


class CommandState(StrEnum):
    """Where a command stands."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Command:
    """Sent to the agent until it has answered; executed once by its id.

    `payload` is what its kind needs: `job` (the id of the job to be cancelled), `version` and
    `image` (of an upgrade), `box` (of a render: the order, sealed, in base64), which `digest`,
    `source` and `reads` of the result replace. A command that runs a job has the job's id.
    """

    id: str
    cluster_id: ClusterId
    kind: CommandKind
    inserted_at: datetime
    service_id: ServiceId | None = None
    state: CommandState = CommandState.WAITING
    message: str = ""
    finished_at: datetime | None = None
    payload: Mapping[str, Any] = field(default_factory=dict)
