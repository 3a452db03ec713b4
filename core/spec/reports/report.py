"""Reports of agents."""

from dataclasses import dataclass
from datetime import datetime

from core.spec.facts import ClusterFacts
from core.spec.jobs import JobStatus
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange
from core.spec.reports.local_services import LocalServiceReport
from core.spec.status import SyncStatus
from core.spec.verification import VerificationResult

ReportBody = (
    SyncStatus
    | InventoryChange
    | CommandAnswer
    | DriftFound
    | JobStatus
    | ClusterFacts
    | LocalServiceReport
    | VerificationResult
)


@dataclass(frozen=True, slots=True)
class Report:
    """One numbered report of an agent."""

    number: int
    at: datetime
    """Time of the reported event, by the agent's clock."""
    body: ReportBody | None = None
    """The report; None for a kind that this version does not know."""
