"""Definitions of services over many clusters: global services, service sets, managed namespaces."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.access import Resource, ResourceKind
from controlplane.domain.selectors import Selector
from core.errors import Invalid

MAX_DELETIONS = 100_000
USUAL_BUDGET = 10


class LeavePolicy(StrEnum):
    """Action on a service that its definition no longer generates."""

    DELETE = "delete"
    """Delete the service and its objects."""
    DETACH = "detach"
    """Delete the service and keep its objects in the cluster."""


@dataclass(frozen=True, slots=True)
class GeneratorDefinition:
    """Common fields of all definitions.

    Without a `project_id` a definition covers the clusters of every project, else those of its own.
    If one evaluation would remove more than `budget` services, the removals wait until that number
    is `confirmed`. `problem` says why the last evaluation was incomplete. A definition with
    `ending_at` is deleted after its services were handled as `on_delete` says.
    """

    id: str
    name: str
    inserted_at: datetime
    updated_at: datetime
    project_id: str | None = None
    selector: Selector = field(default_factory=Selector)
    leave: LeavePolicy = LeavePolicy.DETACH
    on_delete: LeavePolicy = LeavePolicy.DETACH
    budget: int = USUAL_BUDGET
    confirmed: int = 0
    waiting: int = 0
    problem: str = ""
    evaluated_at: datetime | None = None
    ending_at: datetime | None = None

    @property
    def target(self) -> Resource:
        """Returns the definition's location for authorization; permissions on it apply to services
        there.
        """
        if self.project_id is None:
            return Resource.whole(ResourceKind.SERVICE, self.id, self.name)
        return Resource.within(ResourceKind.SERVICE, self.project_id, self.id, self.name)


def check_budget(budget: int) -> int:
    """Raises Invalid if this is not a valid number of deletions."""
    if not 0 <= budget <= MAX_DELETIONS:
        raise Invalid(f"must be 0 to {MAX_DELETIONS}", field="deletionBudget")
    return budget


def scope_for_services(project_id: str | None) -> Resource:
    """Returns the location of a definition's services: a project, or without one everywhere."""
    if project_id is None:
        return Resource.whole(ResourceKind.SERVICE)
    return Resource.within(ResourceKind.SERVICE, project_id)
