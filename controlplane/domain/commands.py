"""Things that an agent is asked to do once: rows until their result is known."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleet.identity import ClusterId, ServiceId


class CommandKind(StrEnum):
    """What can be asked of an agent."""

    SYNC_NOW = "sync-now"


class CommandState(StrEnum):
    """Where a command stands."""

    WAITING = "waiting"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Command:
    """Sent to the agent until it has answered; executed once by its id."""

    id: str
    cluster_id: ClusterId
    kind: CommandKind
    inserted_at: datetime
    service_id: ServiceId | None = None
    state: CommandState = CommandState.WAITING
    message: str = ""
    finished_at: datetime | None = None
