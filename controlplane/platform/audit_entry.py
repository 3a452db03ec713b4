"""Rows of the audit log."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum

from core.json_object import JsonMapping
from core.open_streams import RequestEnd


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

    The store adds all fields from `cluster_id` on; see `controlplane.audit.model.chains`.
    """

    at: datetime
    """Time of the action."""
    actor: str
    """E-mail address of the user, or name of the agent."""
    action: str
    """Action, such as `updateCluster`."""
    verdict: AuditVerdict
    """`allowed` or `refused`."""
    actor_id: str = ""
    token_id: str | None = None
    source: str = ""
    """IP address of the client."""
    target: str = ""
    """Name of the resource."""
    target_id: str = ""
    """ID of the resource."""
    status: int | None = None
    """HTTP status of the response. None for rows without one."""
    request_id: str = ""
    """ID of the request, as in logs."""
    detail: JsonMapping = field(default_factory=dict)
    """Further facts about the action."""
    cluster_id: str = ""
    """ID of the cluster of the resource."""
    project_id: str = ""
    """ID of the project of the resource."""
    before_digest: str = ""
    """SHA-256 of the resource's row before the action."""
    after_digest: str = ""
    """SHA-256 of the resource's row after the action."""
    number: int = 0
    """Position in the hash chain of its kind, from 1."""
    hash: str = ""
    """Hash over the row and the previous hash."""
    id: int | None = None

    @property
    def row_count(self) -> int:
        """Number of rows that this entry becomes."""
        return 1

    def split(self, rows: int) -> "tuple[AuditEntry, AuditEntry | None]":
        """Splits off at most `rows` rows, of at least 1, and returns them with the rest.

        An entry of one row stays whole.
        """
        return self, None


@dataclass(slots=True)
class RepeatedEntry(AuditEntry):
    """Requests that one decision covers: a row for each of `ends`, which differ in nothing else.

    An entry for each of them would take longer than all other work of the audit log.
    """

    ends: Sequence[RequestEnd] = ()

    @property
    def row_count(self) -> int:
        return len(self.ends)

    def split(self, rows: int) -> tuple[AuditEntry, AuditEntry | None]:
        if len(self.ends) <= rows:
            return self, None
        return replace(self, ends=self.ends[:rows]), replace(self, ends=self.ends[rows:])
