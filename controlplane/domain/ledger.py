"""The deployment ledger and the audit log: append-only rows.

The ledger records the stages of desired state; the audit log records the actors. History, rollback,
reports and "why is my commit not live" are queries over the ledger.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


class LedgerStage(StrEnum):
    """Events of a service, in the order of a commit's path."""

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
    stage: LedgerStage
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
class LedgerPosition:
    """Position of the ledger at a moment: `last` is the highest visible row number.

    Transactions before `oldest` have ended; those from `newest` on had not begun. Transactions in
    between may still add rows, also below `last`.
    """

    last: int
    oldest: int
    newest: int


class AuditVerdict(StrEnum):
    """Outcome of the authorization of a request."""

    ALLOWED = "allowed"
    """The action was authorized."""
    REFUSED = "refused"
    """The action was denied."""


# Not frozen, although nothing changes an entry: every proxied request creates one, and freezing
# costs more time than the rest of the constructor.
@dataclass(slots=True)
class AuditEntry:
    """One mutation, sign-in, proxied request or agent action. Contains no header, body or secret.

    The store adds the target's location, digests of the target's row before and after (SHA-256),
    and the entry's number and hash in its chain; see `controlplane.domain.audit`.
    """

    at: datetime
    actor: str
    action: str
    verdict: AuditVerdict
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
