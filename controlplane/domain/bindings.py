"""Projects, bindings of roles, and requests for access that somebody else has to approve."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.domain.access import DEFAULT_PROJECT, Scope, Target

LONGEST_ACCESS = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Project:
    """What belongs together: clusters, repositories, pipelines, and who may do what there."""

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    description: str | None = None

    @property
    def target(self) -> Target:
        """Where the project stands."""
        return Target.project(self.id, self.name)

    @property
    def default(self) -> bool:
        """Whether it holds what has no project of its own."""
        return self.id == DEFAULT_PROJECT


class SubjectKind(StrEnum):
    """Who can be given a role."""

    USER = "user"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Binding:
    """A role given to a user, a service account or a group, in a scope, for some time or for good.

    `given_by` is the e-mail address of who gave it.
    """

    id: str
    role_id: str
    subject_kind: SubjectKind
    subject_id: str
    scope: Scope
    inserted_at: datetime
    expires_at: datetime | None = None
    given_by: str = ""
    reason: str = ""


class RequestState(StrEnum):
    """State of an access request."""

    PENDING = "pending"
    """Nobody has decided yet."""
    APPROVED = "approved"
    """Approved. The role is bound until `expiresAt`."""
    REFUSED = "refused"
    """Denied."""
    REVOKED = "revoked"
    """Approved first and revoked later."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """Somebody asks for a role in a scope for some minutes; another decides.

    `binding_id` and `expires_at` are set once it was approved.
    """

    id: str
    user_id: str
    role_id: str
    scope: Scope
    minutes: int
    reason: str
    inserted_at: datetime
    state: RequestState = RequestState.PENDING
    decided_by: str = ""
    decided_at: datetime | None = None
    binding_id: str | None = None
    expires_at: datetime | None = None
