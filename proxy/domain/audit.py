"""What is kept of a request: never a header, never a body."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from fleet.identity import ClusterId
from proxy.domain.access import Identity
from proxy.domain.attributes import RequestAttributes


class EndReason(StrEnum):
    """Why a request ended."""

    DONE = "done"
    REFUSED = "refused"
    USER_LEFT = "user_left"
    UPSTREAM = "upstream"
    REVOKED = "revoked"
    DRAINED = "drained"
    TIMEOUT = "timeout"
    ENDED = "ended"
    TOO_OLD = "too_old"
    UNRECORDED = "unrecorded"


@dataclass(slots=True)
class RequestRecord:
    """One request, filled in as it becomes known.

    `acting_as` is the user whom the cluster sees; `id` (32 hex digits) is the Audit-ID that the
    API server's own log has too. Once ended: `status` (None if no answer was given), bytes each
    way, `seconds`, `reason`. `refused`: the answer was the door's own. `recorded`: what was said
    in it is kept under the same id.
    """

    id: str
    at: datetime
    source: str
    user_agent: str
    handle: str
    method: str
    upgrade: bool
    attributes: RequestAttributes | None = None
    identity: Identity | None = None
    cluster_id: ClusterId | None = None
    acting_as: str | None = None
    acting_groups: tuple[str, ...] = ()
    rule: str | None = None
    grant_ids: tuple[str, ...] = ()
    refused: bool = False
    recorded: bool = False
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    reason: EndReason | None = None
