"""Names of Kubernetes objects and their changes, as agents report them."""

from dataclasses import dataclass

from core.spec.plan import PlannedChange


@dataclass(frozen=True, slots=True)
class DryRunResult:
    """Result of a service's dry run of the desired state `sequence`. `id` is the service's."""

    id: str
    sequence: int
    changes: tuple[PlannedChange, ...]
