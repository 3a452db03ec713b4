"""The deployment ledger and the audit trail: rows that are only ever added.

The ledger tells what became of desired state, stage by stage; the audit trail tells who asked.
History, rollback, reports and "why is my commit not live" are queries over the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class Stage(StrEnum):
    """What happened to a service, in the order of a commit's walk."""

    CREATED = "created"
    CONFIGURED = "configured"
    RENDERED = "rendered"
    RENDER_FAILED = "render-failed"
    PROMOTED = "promoted"
    ROLLED_BACK = "rolled-back"
    OFFERED = "offered"
    APPLIED = "applied"
    HEALTHY = "healthy"
    VERIFIED = "verified"
    HELD = "held"
    DEGRADED = "degraded"
    FAILED = "failed"
    DRIFTED = "drifted"
    AWAITING = "awaiting"
    CONFIRMED = "confirmed"
    DELETED = "deleted"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of desired or observed state of a service in a cluster."""

    service_id: str
    cluster_id: str
    stage: Stage
    at: datetime
    sequence: int = 0
    sha: str | None = None
    digest: str | None = None
    revision_id: str | None = None
    actor: str = ""
    message: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    id: int | None = None


@dataclass(frozen=True, slots=True)
class Edge:
    """How far the ledger goes at a moment: `last` is the highest number of a row that is seen.

    Transactions before `oldest` have ended, those from `newest` on had not begun; in between some
    may still add rows, also below `last`.
    """

    last: int
    oldest: int
    newest: int


class Verdict(StrEnum):
    """Outcome of the authorization of a request."""

    ALLOWED = "allowed"
    """The action was authorized."""
    REFUSED = "refused"
    """The action was denied."""


# Nothing changes one; but one is made for each request at the door, and to be frozen takes longer
# than all the rest of that.
@dataclass(slots=True)
class AuditEntry:
    """One mutation, login, proxied request or action of an agent. No header, no body, no secret.

    The store adds where the target stands, digests of it before and after (SHA-256 of its row),
    and the row's number and hash in its chain; see `controlplane.domain.audit`.
    """

    at: datetime
    actor: str
    action: str
    verdict: Verdict
    actor_id: str = ""
    token_id: str | None = None
    source: str = ""
    target: str = ""
    target_id: str = ""
    status: int | None = None
    request_id: str = ""
    detail: Mapping[str, Any] = field(default_factory=dict)
    cluster_id: str = ""
    project_id: str = ""
    before_digest: str = ""
    after_digest: str = ""
    number: int = 0
    hash: str = ""
    id: int | None = None
