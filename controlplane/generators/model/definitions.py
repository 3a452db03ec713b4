"""Definitions of services over many clusters: global services, service sets, managed namespaces."""

from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.authorization import DEFAULT_PROJECT, Resource, ResourceKind
from controlplane.clusters.model.selectors import Selector
from controlplane.platform.limits import check_range
from controlplane.platform.parts import NamedRow

MAX_DELETIONS = 100_000
USUAL_BUDGET = 10


class LeavePolicy(StrEnum):
    """Action on a service that its definition no longer generates."""

    DELETE = "delete"
    """Delete the service and its objects."""
    DETACH = "detach"
    """Delete the service and keep its objects in the cluster."""


@dataclass(frozen=True, slots=True)
class GeneratorDefinition(NamedRow):
    """Common fields of all definitions.

    If one evaluation would remove more services than the budget allows, the removals wait until a
    user confirms that number.
    """

    project_id: str | None = None
    """ID of the project whose clusters can match. None: clusters of all projects."""
    selector: Selector = field(default_factory=Selector)
    """Conditions on clusters."""
    leave: LeavePolicy = LeavePolicy.DETACH
    """Handling of services or namespaces that are no longer generated."""
    on_delete: LeavePolicy = LeavePolicy.DETACH
    """Handling of services or namespaces when the definition is deleted."""
    budget: int = USUAL_BUDGET
    """Maximum number of removals in one evaluation without a confirmation."""
    confirmed: int = 0
    """Number of removals that a user has confirmed."""
    waiting: int = 0
    """Number of removals that await a confirmation."""
    problem: str = ""
    """Reason of an incomplete evaluation. Empty if there was none."""
    evaluated_at: datetime | None = None
    """Time of the last evaluation."""
    ending_at: datetime | None = None
    """Start of the deletion. None if none is under way."""

    @property
    def services_project_id(self) -> str:
        """Returns the ID of the project of its services: without a project, the default project."""
        return self.project_id or DEFAULT_PROJECT

    @property
    def target(self) -> Resource:
        """Returns the location of the definition and of its services for authorization."""
        return Resource.of_project(ResourceKind.SERVICE, self.project_id, self.id, self.name)


def check_budget(budget: int) -> int:
    """Raises Invalid if this is not a valid number of deletions."""
    check_range(budget, "deletionBudget", 0, MAX_DELETIONS)
    return budget
