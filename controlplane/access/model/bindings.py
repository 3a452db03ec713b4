"""Projects, role bindings, and access requests that another person has to approve."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Fence, Resource, Scope
from controlplane.platform.parts import NamedRow

MAX_ACCESS_TIME = timedelta(days=7)


@dataclass(frozen=True, slots=True)
class Project(NamedRow):
    """A tenant: resources that share their permissions, and a fence for its services."""

    description: str | None = None
    """Free text."""
    fence: Fence = Fence()
    """Sources, destinations and kinds that services of the project may use. By default none."""

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
    """A role bound to a user, service account or group in a scope."""

    id: str
    role_id: str
    subject_kind: SubjectKind
    subject_id: str
    scope: Scope
    """`installation`, or a resource such as `project:ID`, `cluster:ID` or `service:ID`."""
    inserted_at: datetime
    expires_at: datetime | None = None
    """Expiry time. Null for a permanent binding."""
    given_by: str = ""
    """E-mail address of the user who bound the role."""
    reason: str = ""
    """Reason given for the binding."""
    name: str | None = None
    """Unique name of a declared binding, which stays after its expiry. Null for the others."""
    ended_at: datetime | None = None
    """Time at which the expiry of a declared binding was recorded."""
    cluster_tags: str = ""
    """Selector of cluster tags, such as `env=dev,team in (a,b)`. The role holds only in those
    clusters of the scope. Empty: in the whole scope."""

    def is_live(self, now: datetime) -> bool:
        """Returns whether the binding grants its role at this moment."""
        return self.expires_at is None or self.expires_at > now

    @property
    def where(self) -> str:
        """Returns in which clusters of its scope it holds, for people; empty: everywhere there."""
        return f", in clusters with {self.cluster_tags}" if self.cluster_tags else ""

    @property
    def affected_user(self) -> str:
        """Returns the ID of the user whose permissions the binding changes; "" for a group."""
        return self.subject_id if self.subject_kind is SubjectKind.USER else ""


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
    """A user's request for a role in a scope for some minutes; another user decides."""

    id: str
    user_id: str
    role_id: str
    scope: Scope
    """Scope of the role, such as `project:ID`."""
    minutes: int
    """Requested duration in minutes."""
    reason: str
    """Reason given by the user."""
    inserted_at: datetime
    state: AccessRequestState = AccessRequestState.PENDING
    """State of the request."""
    decided_by: str = ""
    """E-mail address of the user who decided. Empty while the request is pending."""
    decided_at: datetime | None = None
    """Time of the decision."""
    binding_id: str | None = None
    """Binding that the approval created."""
    expires_at: datetime | None = None
    """Time at which the granted role expires."""
