"""Progress of a service."""

from enum import StrEnum


class Phase(StrEnum):
    """Progress of the agent with the desired state that it reports on."""

    FETCHING = "fetching"
    """The agent downloads the bundle."""
    APPLYING = "applying"
    """The agent applies the objects."""
    APPLIED = "applied"
    """All objects are applied; not all of them are healthy yet."""
    HEALTHY = "healthy"
    """All objects are applied and healthy."""
    DEGRADED = "degraded"
    """All objects are applied, but some are failing."""
    FAILED = "failed"
    """The objects could not be applied."""
    REMOVED = "removed"
    """The service is removed from the cluster."""
    AWAITING = "awaiting"
    """A user must confirm deletions."""
