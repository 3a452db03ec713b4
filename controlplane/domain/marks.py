"""One-letter status codes of services, for list filters and the fleet map."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum

from controlplane.domain.services import ServiceStatus


class StatusCode(StrEnum):
    """The status codes. Awaiting approval is stale in the API's one word, and a code of its own
    here.
    """

    HEALTHY = "H"
    """All objects are applied and healthy."""
    SYNCED = "S"
    """All objects are applied but not healthy yet."""
    PROGRESSING = "P"
    """The desired state is not applied yet."""
    FAILED = "F"
    """Rendering, applying or a health check failed."""
    PAUSED = "Z"
    """Somebody paused the service."""
    AWAITING = "A"
    """Deletions await a confirmation."""


_OF_STATUS = {
    ServiceStatus.HEALTHY: (StatusCode.HEALTHY,),
    ServiceStatus.SYNCED: (StatusCode.SYNCED,),
    ServiceStatus.STALE: (StatusCode.PROGRESSING, StatusCode.AWAITING),
    ServiceStatus.FAILED: (StatusCode.FAILED,),
    ServiceStatus.PAUSED: (StatusCode.PAUSED,),
}


def status_codes_of(statuses: Iterable[ServiceStatus]) -> tuple[str, ...]:
    """Returns the codes of services whose status is one of these."""
    return tuple(mark.value for status in statuses for mark in _OF_STATUS[status])


@dataclass(frozen=True, slots=True)
class ClusterMapRow:
    """A cluster on the fleet map: `marks` has one code a service, sorted by service name."""

    id: str
    handle: str
    name: str
    project_id: str | None
    pinged_at: datetime | None
    marks: str
    tags: Mapping[str, str] = field(default_factory=dict)
