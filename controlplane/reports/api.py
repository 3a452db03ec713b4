"""Reports over the ledger in the API: DORA metrics, fleet history and commit traces."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.platform.graphql.context import Info
from controlplane.reports.model.dora import Deployment as DeploymentRow
from controlplane.reports.model.dora import (
    DeploymentChange,
    DeploymentChangeKind,
    DeploymentCounts,
    DoraMetrics,
    ReportPeriod,
)
from controlplane.reports.model.tracing import CommitPath, CommitStanding
from controlplane.reports.operations import LedgerReports, NamedDeployments, Trace
from controlplane.reports.ports import ReportFilter
from controlplane.services.model.status_codes import StatusCode

strawberry.enum(ReportPeriod, name="ReportPeriod")
strawberry.enum(DeploymentChangeKind, name="FleetChangeKind")
strawberry.enum(
    CommitStanding, name="CommitStanding", description="Progress of a service with a commit."
)
strawberry.enum(StatusCode, name="ServiceStatusCode", description="State of a service in reports.")

_Id = strawberry.ID | None


@strawberry.type
class DeliveryCounts:
    """Number of deployments in a period."""

    begun: int
    """Deployments that became the desired state."""
    healthy: int
    """Deployments that became healthy."""
    failed: int
    """Deployments that failed, degraded or were rolled back."""
    failure_rate: float | None
    """`failed` divided by `begun`, from 0 to 1. Null without deployments."""

    @classmethod
    def of(cls, row: DeploymentCounts) -> "DeliveryCounts":
        return cls(
            begun=row.begun, healthy=row.healthy, failed=row.failed, failure_rate=row.failure_rate
        )


@strawberry.type
class DeliveryReport:
    """DORA metrics over deployments that became the desired state in a time range. Percentiles use
    the nearest rank."""

    since: datetime
    """Start of the time range."""
    until: datetime
    """End of the time range."""
    total: DeliveryCounts
    """Counts over the whole range."""
    deployments_per_day: float
    """Healthy deployments per day."""
    lead_p50: float | None
    """Median lead time from commit to healthy, in seconds. Null without data."""
    lead_p90: float | None
    """90th percentile of the lead time, in seconds. Null without data."""
    restore_p50: float | None
    """Median time from failure to healthy again, in seconds. Null without data."""
    restore_p90: float | None
    """90th percentile of the time to restore, in seconds. Null without data."""
    parts: list[DeliveryCounts]
    """Counts per period, oldest first. Empty without `by`."""

    @classmethod
    def of(cls, row: DoraMetrics) -> "DeliveryReport":
        return cls(
            since=row.since,
            until=row.until,
            total=DeliveryCounts.of(row.counts),
            deployments_per_day=row.per_day,
            lead_p50=row.lead_p50,
            lead_p90=row.lead_p90,
            restore_p50=row.restore_p50,
            restore_p90=row.restore_p90,
            parts=[DeliveryCounts.of(part) for part in row.parts],
        )


@strawberry.type
class DeploymentRecord:
    """One desired state of a service, with the time of each stage of its delivery. A time is null
    until the stage is reached."""

    service_id: strawberry.ID
    """ID of the service."""
    service: str | None
    """Name of the service. Null after its deletion."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""
    sequence: float
    """Generation of the desired state."""
    stage: str
    """Last stage, such as `rendered`, `applied` or `healthy`."""
    sha: str | None
    """Full SHA of the commit. Null for a service without a Git repository."""
    revision_id: strawberry.ID | None
    """ID of the revision."""
    actor: str
    """Author of the commit, or e-mail address of the user, that caused the deployment."""
    committed_at: datetime | None
    """Time of the commit."""
    fetched_at: datetime | None
    """Time at which the git cache fetched the commit."""
    desired_at: datetime
    """Time at which the commit became the desired state."""
    offered_at: datetime | None
    """Time at which the agent received the desired state."""
    applied_at: datetime | None
    """Time at which all objects were applied."""
    healthy_at: datetime | None
    """Time at which all objects were healthy."""
    failed_at: datetime | None
    """Time of the first failure."""
    restored_at: datetime | None
    """Time at which the service was healthy again after a failure."""
    reverted_at: datetime | None
    """Time of a rollback to an earlier state."""
    replaced_at: datetime | None
    """Time at which the next desired state replaced this one."""
    removed_at: datetime | None
    """Time at which all objects were removed."""

    @classmethod
    def of(cls, row: DeploymentRow, named: NamedDeployments) -> "DeploymentRecord":
        times = {name: getattr(row, name) for name in _TIMES}
        return cls(
            service_id=strawberry.ID(row.service_id),
            service=named.services.get(row.service_id),
            cluster_id=strawberry.ID(row.cluster_id),
            cluster=named.clusters.get(row.cluster_id),
            sequence=float(row.sequence),
            stage=row.stage.value,
            sha=row.sha,
            revision_id=strawberry.ID(row.revision_id) if row.revision_id else None,
            actor=row.actor,
            **times,
        )


_TIMES = tuple(
    f"{name}_at"
    for name in ("committed", "fetched", "desired", "offered", "applied", "healthy", "failed",
                 "restored", "reverted", "replaced", "removed")
)  # fmt: skip


@strawberry.type
class ServiceSnapshot:
    """A service at a point in time."""

    service_id: strawberry.ID
    """ID of the service."""
    service: str | None
    """Name of the service. Null after its deletion."""
    sha: str | None
    """Full SHA of the desired commit."""
    sequence: float
    """Generation of the desired state."""
    status_code: StatusCode
    """State of the service."""
    desired_at: datetime
    """Time at which the commit became the desired state."""


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

    @classmethod
    def of(cls, at: datetime, named: NamedDeployments) -> "FleetSnapshot":
        clusters: dict[str, list[ServiceSnapshot]] = {}
        for deployment in named.deployments:
            clusters.setdefault(deployment.cluster_id, []).append(_snapshot(deployment, at, named))
        return cls(
            at=at,
            clusters=[
                ClusterSnapshot(
                    cluster_id=strawberry.ID(id), cluster=named.clusters.get(id), services=services
                )
                for id, services in clusters.items()
            ],
        )


def _snapshot(deployment: DeploymentRow, at: datetime, named: NamedDeployments) -> ServiceSnapshot:
    return ServiceSnapshot(
        service_id=strawberry.ID(deployment.service_id),
        service=named.services.get(deployment.service_id),
        sha=deployment.sha,
        sequence=float(deployment.sequence),
        status_code=deployment.status_code(at),
        desired_at=deployment.desired_at,
    )


@strawberry.type
class FleetChange:
    """Difference of a service between two points in time."""

    kind: DeploymentChangeKind
    """Kind of difference."""
    service_id: strawberry.ID
    """ID of the service."""
    service: str | None
    """Name of the service. Null after its deletion."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""
    sha_before: str | None
    """Commit at the first point in time. Null if there was none."""
    sha_after: str | None
    """Commit at the second point in time. Null if there was none."""
    status_before: StatusCode | None
    """State at the first point in time."""
    status_after: StatusCode | None
    """State at the second point in time."""


def _changes(rows: Sequence[DeploymentChange], named: NamedDeployments) -> list[FleetChange]:
    found = []
    for row in rows:
        deployment = row.after or row.before
        if deployment is None:
            continue
        found.append(
            FleetChange(
                kind=row.kind,
                service_id=strawberry.ID(deployment.service_id),
                service=named.services.get(deployment.service_id),
                cluster_id=strawberry.ID(deployment.cluster_id),
                cluster=named.clusters.get(deployment.cluster_id),
                sha_before=row.before.sha if row.before else None,
                sha_after=row.after.sha if row.after else None,
                status_before=row.status_before,
                status_after=row.status_after,
            )
        )
    return found


@strawberry.type
class StageTimeType:
    """Duration of one delivery stage over all services that passed it."""

    stage: str
    """Name of the stage."""
    count: int
    """Number of services."""
    p50: float
    """Median duration in seconds."""
    p99: float
    """99th percentile of the duration in seconds."""


@strawberry.type
class CommitProgress:
    """Progress of one service with a commit."""

    service_id: strawberry.ID
    """ID of the service."""
    service: str
    """Name of the service."""
    cluster_id: strawberry.ID
    """ID of the cluster."""
    cluster: str | None
    """Handle of the cluster. Null after its deletion."""
    standing: CommitStanding
    """Current stage."""
    reason: str | None
    """Reason of the wait or the failure. Null if there is none."""
    since: datetime | None
    """Start of the current stage."""

    @classmethod
    def of(cls, row: CommitPath) -> "CommitProgress":
        return cls(
            service_id=strawberry.ID(row.service.id),
            service=row.service.name,
            cluster_id=strawberry.ID(row.service.cluster_id),
            cluster=row.cluster.handle if row.cluster else None,
            standing=row.standing,
            reason=row.reason or None,
            since=row.since,
        )


@strawberry.type
class CommitTrace:
    """Progress of a commit over all its services."""

    sha: str
    """Full SHA of the commit."""
    services: int
    """Number of services."""
    live: int
    """Number of services with this commit or a later state."""
    stages: list[StageTimeType]
    """Duration of each stage."""
    stragglers: list[CommitProgress]
    """Services without the commit, longest waiting first."""

    @classmethod
    def of(cls, row: Trace) -> "CommitTrace":
        return cls(
            sha=row.sha,
            services=len(row.walks),
            live=row.live,
            stages=[
                StageTimeType(stage=stage.stage, count=stage.count, p50=stage.p50, p99=stage.p99)
                for stage in row.stages
            ],
            stragglers=[CommitProgress.of(straggler) for straggler in row.stragglers],
        )


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
    ) -> DeliveryReport:
        """DORA metrics over a time range.

        Args:
            since: Start of the time range. Limit: 1,100 days before the end.
            until: End of the time range. Default: now.
            by: Length of the periods in `parts`. Limit: 400 periods. Default: no periods.
        """
        within = ReportFilter(project_id, cluster_id, service_id, repository_id)
        reports, actor = info.context[LedgerReports], info.context.actor
        return DeliveryReport.of(await reports.figures(actor, since, until, within, by))

    @strawberry.field
    async def deployment_history(
        self,
        info: Info,
        first: int = 50,
        project_id: _Id = None,
        cluster_id: _Id = None,
        service_id: _Id = None,
        repository_id: _Id = None,
    ) -> list[DeploymentRecord]:
        """Latest deployments, newest first.

        Args:
            first: Number of rows. Default: 50. Limit: 500.
        """
        within = ReportFilter(project_id, cluster_id, service_id, repository_id)
        named = await info.context[LedgerReports].newest(info.context.actor, within, first)
        return [DeploymentRecord.of(deployment, named) for deployment in named.deployments]

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
        return FleetSnapshot.of(at, named)

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
        return _changes(changes, named)

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
