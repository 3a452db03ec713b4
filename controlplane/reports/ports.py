"""Ports of reports."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Protocol

from controlplane.authorization import Visible
from controlplane.platform.labels import LabelRequirement
from controlplane.reports.model.dora import Deployment, DoraMetrics, ReportPeriod
from controlplane.reports.model.installation_metrics import MetricsSnapshot
from controlplane.reports.model.spans import EndedDeployment, Span
from controlplane.services.model.ledger import LedgerPosition


@dataclass(frozen=True, slots=True)
class ReportFilter:
    """Filter of a report; all given fields must match.

    `labels` are those that services have now, with the tags of their clusters. A service that was
    deleted has none.
    """

    project_id: str | None = None
    cluster_id: str | None = None
    service_id: str | None = None
    repository_id: str | None = None
    labels: tuple[LabelRequirement, ...] = ()


@dataclass(frozen=True, slots=True)
class DesiredBetween:
    """Time range in which a commit became the desired state; the end is exclusive."""

    since: datetime | None = None
    until: datetime | None = None


class DeploymentStore(Protocol):
    """Reports over the ledger's deployments."""

    async def at(
        self, moment: datetime, within: ReportFilter, visible: Visible, limit: int
    ) -> list[Deployment]:
        """Returns the desired state of each service at a moment."""
        ...

    async def service_names(self, ids: Collection[str]) -> dict[str, str]:
        """Returns the names of those services that still exist."""
        ...

    async def cluster_handles(self, ids: Collection[str]) -> dict[str, str]:
        """Returns the handles of clusters, by id."""
        ...

    async def label_values(self, key: str, visible: Visible, limit: int) -> list[str]:
        """Returns the different values of a label of visible services, in order."""
        ...

    async def deployments_of_commit(self, sha: str, visible: Visible) -> list[Deployment]:
        """Returns all deployments of a commit, which may be abbreviated."""
        ...

    async def newest(
        self, within: ReportFilter, visible: Visible, limit: int, between: DesiredBetween
    ) -> list[Deployment]:
        """Returns the most recent deployments."""
        ...

    async def edge(self) -> LedgerPosition:
        """Returns the current position of the ledger."""
        ...

    async def ended(self, after: int, until: int, limit: int) -> tuple[int, list[EndedDeployment]]:
        """Returns deployments that first ended in rows after `after` up to `until`, and the last
        examined row.
        """
        ...

    async def figures(
        self,
        since: datetime,
        until: datetime,
        within: ReportFilter,
        visible: Visible,
        period: ReportPeriod | None = None,
    ) -> DoraMetrics:
        """Returns the metrics of the deployments that became desired in `[since, until)`."""
        ...


class SpanExporter(Protocol):
    """Export of traces."""

    async def export(self, spans: Sequence[Span]) -> None:
        """Exports spans. Raises Unavailable if the receiver did not accept them."""
        ...

    def close(self) -> None:
        """Closes the connection."""
        ...


class MetricsSnapshotStore(Protocol):
    """Counts over the whole installation."""

    async def take(self, now: datetime) -> MetricsSnapshot:
        """Counts rows and queues as of `now`."""
        ...
