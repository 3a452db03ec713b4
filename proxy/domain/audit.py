"""Audit record of a request; it never contains a header or a body."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from core.identity import ClusterId
from proxy.domain.access import AuthenticatedUser
from proxy.domain.attributes import RequestAttributes


class EndReason(StrEnum):
    """Reason why a request ended."""

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
    """Audit record of one request, filled in while the request proceeds.
    `acting_as`: the user that the cluster sees. `id` (32 hex digits): the Audit-ID, which the API
    server's own audit log has too. At the end: `status` (None without a response), bytes in each
    direction, `seconds` and `reason`. `refused`: the proxy itself responded. `recorded`: the
    session's recording has the same id.
    """

    id: str
    at: datetime
    source: str
    user_agent: str
    handle: str
    method: str
    upgrade: bool
    attributes: RequestAttributes | None = None
    identity: AuthenticatedUser | None = None
    cluster_id: ClusterId | None = None
    acting_as: str | None = None
    acting_groups: tuple[str, ...] = ()
    rule: str | None = None
    grant_ids: tuple[str, ...] = ()
    stream_limits: tuple[tuple[str, int], ...] = ()
    refused: bool = False
    recorded: bool = False
    status: int | None = None
    bytes_in: int = 0
    bytes_out: int = 0
    seconds: float = 0.0
    reason: EndReason | None = None
