"""Status of a service in one word and as a one-letter code, for list filters and the fleet map."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum


class ServiceStatus(StrEnum):
    """Status of a service in one word, as the API names it."""

    STALE = "STALE"
    """The desired state is not applied yet."""
    SYNCED = "SYNCED"
    """All objects are applied but not healthy yet."""
    HEALTHY = "HEALTHY"
    """All objects are applied and healthy."""
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
    """The desired state is not applied yet."""
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
    """Display name of the cluster."""
    project_id: str | None
    """ID of the project. None if none was set."""
    pinged_at: datetime | None
    """Time of the last report of the agent. None if it has never connected."""
    status_codes: str
    """One letter per service, sorted by name: H healthy, S synced, P progressing, F failed, Z
    paused, A awaiting approval, D dry run."""
    tags: Mapping[str, str] = field(default_factory=dict)
    """Tags of the cluster."""
