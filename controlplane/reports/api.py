"""Reports over the ledger in the API: DORA metrics, fleet history and commit traces."""

from datetime import datetime

import strawberry

from controlplane.platform.graphql.context import Info
from controlplane.platform.graphql.derive import Output, computed, output
from controlplane.platform.labels import parse_selector
from controlplane.reports.model.dora import (
    Deployment,
    DeploymentChange,
    DeploymentChangeKind,
    DeploymentCounts,
    DoraMetrics,
    ReportPeriod,
)
from controlplane.reports.model.tracing import CommitPath, CommitStanding, StageTime
from controlplane.reports.operations import LedgerReports, NamedDeployments, Trace
from controlplane.reports.ports import DesiredBetween, ReportFilter
from controlplane.services.model.status_codes import StatusCode

strawberry.enum(ReportPeriod, name="ReportPeriod")
strawberry.enum(DeploymentChangeKind, name="FleetChangeKind")
strawberry.enum(
    CommitStanding, name="CommitStanding", description="Progress of a service with a commit."
)
strawberry.enum(StatusCode, name="ServiceStatusCode", description="State of a service in reports.")

_Id = strawberry.ID | None


@output(DeploymentCounts)
class DeliveryCounts(Output[DeploymentCounts]):
    """Number of deployments in a period."""

    failure_rate: float | None = computed(lambda counts: counts.failure_rate)
    """`failed` divided by `begun`, from 0 to 1. Null without deployments."""


@output(DoraMetrics, rename={"total": "counts"}, hide={"since", "until", "parts"})
class DeliveryGroup(Output[DoraMetrics]):
    """DORA metrics of the services with one value of a label."""

    value: str | None
    """Value of the label. Null for services without the label."""
    deployments_per_day: float = computed(lambda metrics: metrics.per_day)
    """Healthy deployments per day."""


@output(DoraMetrics, rename={"total": "counts"})
class DeliveryReport(Output[DoraMetrics]):
    """DORA metrics over deployments that became the desired state in a time range. Percentiles use
    the nearest rank."""

    since: datetime
    until: datetime
    deployments_per_day: float = computed(lambda metrics: metrics.per_day)
    """Healthy deployments per day."""
    within: strawberry.Private[ReportFilter]

    @strawberry.field
    async def by_label(self, info: Info, label: str) -> list[DeliveryGroup]:
        """The same metrics for each value of a label, such as `team`, and for services without it.

        A service has the labels of its manifest and the tags of its cluster, as they are now.
        Groups without deployments are left out. Limit: 50 values.

        Args:
            label: Name of the label.
        """
        reports, actor = info.context[LedgerReports], info.context.actor
        groups = await reports.by_label(actor, self.since, self.until, self.within, label)
        return [DeliveryGroup.of(group.metrics, value=group.value) for group in groups]


@output(Deployment)
class DeploymentRecord(Output[Deployment]):
    """One desired state of a service, with the time of each stage of its delivery. A time is null
    until the stage is reached."""

    stage: str
    sequence: float
    service: str | None
    """Name of the service. Null after its deletion."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""


@output(Deployment, only={"service_id", "sha", "sequence", "desired_at"})
class ServiceSnapshot(Output[Deployment]):
    """A service at a point in time."""

    sequence: float
    service: str | None
    """Name of the service. Null after its deletion."""
    status_code: StatusCode
    """State of the service."""


@strawberry.type
class ClusterSnapshot:
    """Services of a cluster at a point in time."""

    cluster_id: strawberry.ID
    """ID of the cluster."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""
    services: list[ServiceSnapshot]
    """Services of the cluster."""


@strawberry.type
class FleetSnapshot:
    """The fleet at a point in time."""

    at: datetime
    """The point in time."""
    clusters: list[ClusterSnapshot]
    """Clusters with services. Limit: 20,000 services."""


def _fleet_snapshot(at: datetime, named: NamedDeployments) -> FleetSnapshot:
    clusters: dict[str, list[ServiceSnapshot]] = {}
    for deployment in named.deployments:
        service = ServiceSnapshot.of(
            deployment,
            service=named.services.get(deployment.service_id),
            status_code=deployment.status_code(at),
        )
        clusters.setdefault(deployment.cluster_id, []).append(service)
    return FleetSnapshot(
        at=at,
        clusters=[
            ClusterSnapshot(
                cluster_id=strawberry.ID(id), cluster=named.clusters.get(id), services=services
            )
            for id, services in clusters.items()
        ],
    )


@output(DeploymentChange, hide={"latest", "before", "after"})
class FleetChange(Output[DeploymentChange]):
    """Difference of a service between two points in time."""

    service_id: strawberry.ID = computed(lambda change: change.latest.service_id)
    """ID of the service."""
    service: str | None
    """Name of the service. Null after its deletion."""
    cluster_id: strawberry.ID = computed(lambda change: change.latest.cluster_id)
    """ID of the cluster."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""
    sha_before: str | None = computed(lambda change: change.before.sha if change.before else None)
    """Commit at the first point in time. Null if there was none."""
    sha_after: str | None = computed(lambda change: change.after.sha if change.after else None)
    """Commit at the second point in time. Null if there was none."""


@output(StageTime)
class StageTimeType(Output[StageTime]):
    """Duration of one delivery stage over all services that passed it."""


@output(CommitPath, only={"standing", "reason", "since"}, nullable={"reason"})
class CommitProgress(Output[CommitPath]):
    """Progress of one service with a commit."""

    service_id: strawberry.ID = computed(lambda path: path.service.id)
    """ID of the service."""
    service: str = computed(lambda path: path.service.name)
    """Name of the service."""
    cluster_id: strawberry.ID = computed(lambda path: path.service.cluster_id)
    """ID of the cluster."""
    cluster: str | None = computed(lambda path: path.cluster.handle if path.cluster else None)
    """Handle of the cluster. Null after its deletion."""


@output(Trace, hide={"paths"})
class CommitTrace(Output[Trace]):
    """Progress of a commit over all its services."""

    services: int = computed(lambda trace: len(trace.paths))
    """Number of services."""
    live: int = computed(lambda trace: trace.live)
    """Number of services with this commit or a later state."""
    stragglers: list[CommitProgress] = computed(
        lambda trace: CommitProgress.of_each(trace.stragglers)
    )
    """Services without the commit, longest waiting first."""


@strawberry.type
class ReportQuery:
    @strawberry.field
    async def delivery_report(
        self,
        info: Info,
        since: datetime,
        until: datetime | None = None,
        by: ReportPeriod | None = None,
        project_id: _Id = None,
        cluster_id: _Id = None,
        service_id: _Id = None,
        repository_id: _Id = None,
        labels: str | None = None,
    ) -> DeliveryReport:
        """DORA metrics over a time range.

        Args:
            since: Start of the time range. Limit: 1,100 days before the end.
            until: End of the time range. Default: now.
            by: Length of the periods in `parts`. Limit: 400 periods. Default: no periods.
        """
        selected = parse_selector(labels or "")
        within = ReportFilter(project_id, cluster_id, service_id, repository_id, selected)
        reports, actor = info.context[LedgerReports], info.context.actor
        figures = await reports.figures(actor, since, until, within, by)
        return DeliveryReport.of(figures, within=within)

    @strawberry.field
    async def deployment_history(
        self,
        info: Info,
        first: int = 50,
        since: datetime | None = None,
        until: datetime | None = None,
        project_id: _Id = None,
        cluster_id: _Id = None,
        service_id: _Id = None,
        repository_id: _Id = None,
        labels: str | None = None,
    ) -> list[DeploymentRecord]:
        """Latest deployments, newest first.

        Args:
            first: Number of rows. Default: 50. Limit: 500.
            since: Only deployments that became desired at or after this time.
            until: Only deployments that became desired before this time.
        """
        selected = parse_selector(labels or "")
        within = ReportFilter(project_id, cluster_id, service_id, repository_id, selected)
        reports, actor = info.context[LedgerReports], info.context.actor
        named = await reports.newest(actor, within, first, DesiredBetween(since, until))
        return [
            DeploymentRecord.of(deployment, **named.names_of(deployment))
            for deployment in named.deployments
        ]

    @strawberry.field
    async def fleet(
        self, info: Info, at: datetime, project_id: _Id = None, cluster_id: _Id = None
    ) -> FleetSnapshot:
        """The fleet at a point in time.

        Args:
            at: The point in time.
        """
        within = ReportFilter(project_id, cluster_id)
        named = await info.context[LedgerReports].at(info.context.actor, at, within)
        return _fleet_snapshot(at, named)

    @strawberry.field
    async def fleet_changes(
        self,
        info: Info,
        then: datetime,
        now: datetime,
        project_id: _Id = None,
        cluster_id: _Id = None,
    ) -> list[FleetChange]:
        """Differences of the fleet between two points in time.

        Args:
            then: First point in time.
            now: Second point in time.
        """
        within = ReportFilter(project_id, cluster_id)
        reports, actor = info.context[LedgerReports], info.context.actor
        changes, named = await reports.difference(actor, then, now, within)
        return [FleetChange.of(change, **named.names_of(change.latest)) for change in changes]

    @strawberry.field
    async def commit_trace(self, info: Info, sha: str, repository_id: _Id = None) -> CommitTrace:
        """Progress of a commit over all its services.

        Args:
            sha: Full SHA, or at least its first 7 characters.
            repository_id: ID of the repository, to include services without the commit. Default:
                only services that have had it.
        """
        trace = await info.context[LedgerReports].trace(info.context.actor, sha, repository_id)
        return CommitTrace.of(trace)
