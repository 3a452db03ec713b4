"""Rows of the audit log."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any


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
    and the entry's number and hash in its chain; see `controlplane.audit.model.chains`.
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
