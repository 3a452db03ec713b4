"""Projects, role bindings, and access requests that another person has to approve."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, Scope

MAX_ACCESS_TIME = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Project:
    """A group of clusters, repositories and pipelines that share their permissions."""

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    description: str | None = None

    @property
    def target(self) -> Resource:
        """Returns the project's location for authorization."""
        return Resource.project(self.id, self.name)

    @property
    def default(self) -> bool:
        """Returns whether this is the default project, which holds everything without a project."""
        return self.id == DEFAULT_PROJECT


class SubjectKind(StrEnum):
    """Kinds of subjects that a role can be bound to."""

    USER = "user"
    GROUP = "group"


@dataclass(frozen=True, slots=True)
class Binding:
    """A role bound to a user, service account or group in a scope, optionally until `expires_at`.

    `given_by` is the e-mail address of the user who created the binding.
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


class AccessRequestState(StrEnum):
    """State of an access request."""

    PENDING = "pending"
    """Awaiting a decision."""
    APPROVED = "approved"
    """Approved. The role is bound until `expiresAt`."""
    REFUSED = "refused"
    """Denied."""
    REVOKED = "revoked"
    """Approved first and revoked later."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """A user's request for a role in a scope for some minutes; another user decides.

    Approval sets `binding_id` and `expires_at`.
    """

    id: str
    user_id: str
    role_id: str
    scope: Scope
    minutes: int
    reason: str
    inserted_at: datetime
    state: AccessRequestState = AccessRequestState.PENDING
    decided_by: str = ""
    decided_at: datetime | None = None
    binding_id: str | None = None
    expires_at: datetime | None = None
