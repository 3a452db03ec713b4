"""Services that a cluster defines itself."""

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class LocalServiceReport:
    """Origin and desired state of a service that its cluster defines."""

    service_id: str
    name: str
    namespace: str
    repository: str = ""
    ref: str = ""
    folder: str = ""
    commit: str = ""
    digest: str = ""
    sequence: int = 0
    removed: bool = False
    """The cluster no longer defines the service."""
    error: str = ""
    """Reason why it cannot be rendered; empty without one."""
    reason: str = ""
    """Reason of the error, for programs; empty if there is none."""
    committed_at: datetime | None = None
    """Time of the commit. None without a repository, or if the agent no longer knows it."""
