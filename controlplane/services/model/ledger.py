"""The deployment ledger and the audit log: append-only rows.

The ledger records the stages of desired state; the audit log records the actors. History, rollback,
reports and "why is my commit not live" are queries over the ledger.
"""

from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from typing import Self

from controlplane.authorization import DEFAULT_PROJECT
from controlplane.services.model.service import Service
from core.json_object import JsonMapping


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
    OBJECTS_SYNCED = "objects-synced"
    AWAITING = "awaiting"
    CONFIRMED = "confirmed"
    DELETED = "deleted"
    REMOVED = "removed"


@dataclass(frozen=True, slots=True)
class LedgerEntry:
    """One change of desired or observed state of a service in a cluster."""

    service_id: str
    """ID of the service."""
    cluster_id: str
    """ID of the cluster."""
    stage: LedgerStage
    """Stage, such as `rendered`, `applied` or `healthy`."""
    at: datetime
    """Time of the event."""
    sequence: int = 0
    """Generation of the desired state."""
    sha: str | None = None
    """Full SHA of the commit. None if none is concerned."""
    digest: str | None = None
    """Digest of the bundle. None if none is concerned."""
    revision_id: str | None = None
    """ID of the revision. None if none is concerned."""
    actor: str = ""
    """Author of the commit, or e-mail address of the user, that caused the event."""
    message: str = ""
    """Human-readable message."""
    detail: JsonMapping = field(default_factory=dict)
    """Further facts."""
    project_id: str = DEFAULT_PROJECT
    """ID of the project of the service."""
    id: int | None = None

    @classmethod
    def of(
        cls,
        service: Service,
        stage: LedgerStage,
        at: datetime,
        *,
        actor: str = "",
        message: str = "",
    ) -> Self:
        """Returns an entry about the present desired state of a service."""
        desired = service.desired
        return cls(
            service.id,
            service.cluster_id,
            stage,
            at,
            desired.generation,
            desired.commit_sha,
            desired.digest,
            desired.revision_id,
            actor=actor,
            message=message,
            project_id=service.project_id,
        )

    def without_revision(self) -> Self:
        """Returns the entry of an event that concerns no commit and no bundle."""
        return replace(self, sha=None, digest=None, revision_id=None)


@dataclass(frozen=True, slots=True)
class LedgerPosition:
    """Position of the ledger at a moment: `last` is the highest visible row number.

    Transactions before `oldest` have ended; those from `newest` on had not begun. Transactions in
    between may still add rows, also below `last`.
    """

    last: int
    oldest: int
    newest: int
