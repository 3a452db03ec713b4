"""Names of Kubernetes objects and their changes, as agents report them."""

from dataclasses import dataclass

from core.spec.plan import PlannedChange


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Result of a service's dry run. `id` is the service's."""

    id: str
    sequence: int
    """Generation of the desired state that the plan refers to."""
    changes: tuple[PlannedChange, ...]
    """Changes by object."""
