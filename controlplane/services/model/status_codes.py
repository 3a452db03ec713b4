"""Status of a service in one word and as a one-letter code, for list filters and the fleet map."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ServiceStatus(StrEnum):
    """Status of a service in one word, as the API names it."""

    STALE = "STALE"
    """The service is being rendered, or the agent fetches or applies the desired state."""
    OUT_OF_SYNC = "OUT_OF_SYNC"
    """The desired state is not that of the cluster: the agent does not have it yet, or a dependency
    is not healthy."""
    SYNCED = "SYNCED"
    """All objects are applied but not healthy yet."""
    HEALTHY = "HEALTHY"
    """All objects are applied and healthy."""
    DRIFTED = "DRIFTED"
    """All objects are applied, but others have changed or deleted some of them since."""
    PINNED = "PINNED"
    """All objects are applied and healthy, at the commit of a rollback. The service ignores newer
    commits."""
    FAILED = "FAILED"
    """Rendering, applying or a health check failed."""
    PAUSED = "PAUSED"
    """A user paused the service."""
    AWAITING_APPROVAL = "AWAITING_APPROVAL"
    """Deletions await a confirmation."""
    DRY_RUN = "DRY_RUN"
    """The agent has planned the changes and applies nothing."""


class StatusCode(StrEnum):
    """The status codes, one for each status."""

    HEALTHY = "H"
    """All objects are applied and healthy."""
    SYNCED = "S"
    """All objects are applied but not healthy yet."""
    PROGRESSING = "P"
    """The service is being rendered, or the agent fetches or applies the desired state."""
    OUT_OF_SYNC = "O"
    """The desired state is not that of the cluster."""
    DRIFTED = "R"
    """Others have changed or deleted applied objects."""
    PINNED = "N"
    """All objects are applied and healthy, at the commit of a rollback."""
    FAILED = "F"
    """Rendering, applying or a health check failed."""
    PAUSED = "Z"
    """A user paused the service."""
    AWAITING = "A"
    """Deletions await a confirmation."""
    DRY_RUN = "D"
    """The agent has planned the changes and applies nothing."""


_STATUS_OF_CODE = {
    StatusCode.HEALTHY: ServiceStatus.HEALTHY,
    StatusCode.SYNCED: ServiceStatus.SYNCED,
    StatusCode.PROGRESSING: ServiceStatus.STALE,
    StatusCode.OUT_OF_SYNC: ServiceStatus.OUT_OF_SYNC,
    StatusCode.DRIFTED: ServiceStatus.DRIFTED,
    StatusCode.PINNED: ServiceStatus.PINNED,
    StatusCode.FAILED: ServiceStatus.FAILED,
    StatusCode.PAUSED: ServiceStatus.PAUSED,
    StatusCode.AWAITING: ServiceStatus.AWAITING_APPROVAL,
    StatusCode.DRY_RUN: ServiceStatus.DRY_RUN,
}


def status_of(code: StatusCode) -> ServiceStatus:
    """Returns the status in the API's one word."""
    return _STATUS_OF_CODE[code]


def status_codes_of(statuses: Collection[ServiceStatus]) -> tuple[str, ...]:
    """Returns the codes of services whose status is one of these."""
    return tuple(code.value for code, status in _STATUS_OF_CODE.items() if status in statuses)


@dataclass(frozen=True, slots=True)
class ClusterMapRow:
    """A cluster on the fleet map."""

    id: str
    """ID of the cluster."""
    handle: str
    """Handle of the cluster."""
    name: str
    """Display name of the cluster, or its handle for callers who only see services in it."""
    project_id: str | None
    """ID of the project. None for callers who only see services in the cluster."""
    pinged_at: datetime | None
    """Time of the last report of the agent. None if it has never connected."""
    status_codes: str
    """One letter per service, sorted by name: H healthy, S synced, P progressing, O out of sync, R
    drifted, N pinned, F failed, Z paused, A awaiting approval, D dry run."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the cluster."""
