"""Reports over the ledger: figures of delivery, the fleet at a moment, the walk of a commit."""

from collections.abc import Sequence
from datetime import datetime

import strawberry

from controlplane.domain.dora import Change, ChangeKind, Counts, Figures, Period
from controlplane.domain.dora import Deployment as DeploymentRow
from controlplane.domain.marks import Mark
from controlplane.domain.tracing import Standing, Walk
from controlplane.graphql.context import Info
from controlplane.ports import Within
from controlplane.usecases.ledger import Named, Trace

strawberry.enum(Period, name="Period")
strawberry.enum(ChangeKind, name="FleetChangeKind")
strawberry.enum(Standing, name="CommitStanding")
strawberry.enum(Mark, name="ServiceMark")

_Id = strawberry.ID | None


@strawberry.type
class DeliveryCounts:
    """Deployments of a stretch of time. `failed` counts those that failed, degraded, or were
    rolled back; `failureRate` is null where there was none."""

    begun: int
    healthy: int
    failed: int
    failure_rate: float | None

    @classmethod
    def of(cls, row: Counts) -> "DeliveryCounts":
        return cls(
            begun=row.begun, healthy=row.healthy, failed=row.failed, failure_rate=row.failure_rate
        )


@strawberry.type
class DeliveryReport:
    """The four figures over deployments that became desired in a window; times in seconds.

    Lead time is from the commit to healthy, restoring from the failure to healthy again; p50 and
    p90 by nearest rank.
    """

    since: datetime
    until: datetime
    total: DeliveryCounts
    deployments_per_day: float
    lead_p50: float | None
    lead_p90: float | None
    restore_p50: float | None
    restore_p90: float | None
    parts: list[DeliveryCounts]

    @classmethod
    def of(cls, row: Figures) -> "DeliveryReport":
        return cls(
            since=row.since,
            until=row.until,
            total=DeliveryCounts.of(row.counts),
            deployments_per_day=row.per_day,
            lead_p50=row.lead_p50,
            lead_p90=row.lead_p90,
            restore_p50=row.restore_p50,
            restore_p90=row.restore_p90,
            parts=[DeliveryCounts.of(one) for one in row.parts],
        )


@strawberry.type
class DeploymentRecord:
    """One desired state of a service, with the time of each stage of its walk. `service` and
    `cluster` are null once they are gone."""

    service_id: strawberry.ID
    service: str | None
    cluster_id: strawberry.ID
    cluster: str | None
    sequence: float
    stage: str
    sha: str | None
    revision_id: strawberry.ID | None
    actor: str
    committed_at: datetime | None
    fetched_at: datetime | None
    desired_at: datetime
    offered_at: datetime | None
    applied_at: datetime | None
    healthy_at: datetime | None
    failed_at: datetime | None
    restored_at: datetime | None
    reverted_at: datetime | None
    replaced_at: datetime | None
    removed_at: datetime | None

    @classmethod
    def of(cls, row: DeploymentRow, named: Named) -> "DeploymentRecord":
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
class ServiceMoment:
    """A service as it was desired at a moment, and what it was at then."""

    service_id: strawberry.ID
    service: str | None
    sha: str | None
    sequence: float
    mark: Mark
    desired_at: datetime


@strawberry.type
class ClusterMoment:
    cluster_id: strawberry.ID
    cluster: str | None
    services: list[ServiceMoment]


@strawberry.type
class FleetMoment:
    at: datetime
    clusters: list[ClusterMoment]

    @classmethod
    def of(cls, at: datetime, named: Named) -> "FleetMoment":
        clusters: dict[str, list[ServiceMoment]] = {}
        for one in named.deployments:
            clusters.setdefault(one.cluster_id, []).append(_moment(one, at, named))
        return cls(
            at=at,
            clusters=[
                ClusterMoment(
                    cluster_id=strawberry.ID(id), cluster=named.clusters.get(id), services=services
                )
                for id, services in clusters.items()
            ],
        )


def _moment(one: DeploymentRow, at: datetime, named: Named) -> ServiceMoment:
    return ServiceMoment(
        service_id=strawberry.ID(one.service_id),
        service=named.services.get(one.service_id),
        sha=one.sha,
        sequence=float(one.sequence),
        mark=one.mark(at),
        desired_at=one.desired_at,
    )


@strawberry.type
class FleetChange:
    """What became of a service between two moments."""

    kind: ChangeKind
    service_id: strawberry.ID
    service: str | None
    cluster_id: strawberry.ID
    cluster: str | None
    sha_before: str | None
    sha_after: str | None
    mark_before: Mark | None
    mark_after: Mark | None


def _changes(rows: Sequence[Change], named: Named) -> list[FleetChange]:
    found = []
    for row in rows:
        one = row.after or row.before
        if one is None:
            continue
        found.append(
            FleetChange(
                kind=row.kind,
                service_id=strawberry.ID(one.service_id),
                service=named.services.get(one.service_id),
                cluster_id=strawberry.ID(one.cluster_id),
                cluster=named.clusters.get(one.cluster_id),
                sha_before=row.before.sha if row.before else None,
                sha_after=row.after.sha if row.after else None,
                mark_before=row.mark_before,
                mark_after=row.mark_after,
            )
        )
    return found


@strawberry.type
class StageTime:
    """How long a stage took over the services that passed it, in seconds."""

    stage: str
    count: int
    p50: float
    p99: float


@strawberry.type
class CommitWalk:
    """Where a service stands with a commit, since when, and what it waits for."""

    service_id: strawberry.ID
    service: str
    cluster_id: strawberry.ID
    cluster: str | None
    standing: Standing
    reason: str | None
    since: datetime | None

    @classmethod
    def of(cls, row: Walk) -> "CommitWalk":
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
    """How far a commit has come: the time of each stage, and who has not got it yet."""

    sha: str
    services: int
    live: int
    stages: list[StageTime]
    stragglers: list[CommitWalk]

    @classmethod
    def of(cls, row: Trace) -> "CommitTrace":
        return cls(
            sha=row.sha,
            services=len(row.walks),
            live=row.live,
            stages=[
                StageTime(stage=one.stage, count=one.count, p50=one.p50, p99=one.p99)
                for one in row.stages
            ],
            stragglers=[CommitWalk.of(one) for one in row.stragglers],
        )


@strawberry.type
class ReportQuery:
    @strawberry.field(
        description="The four figures of delivery over a window; `by` parts it from its beginning."
    )
    async def delivery_report(
        self,
        info: Info,
        since: datetime,
        until: datetime | None = None,
        by: Period | None = None,
        project_id: _Id = None,
        cluster_id: _Id = None,
        service_id: _Id = None,
        repository_id: _Id = None,
    ) -> DeliveryReport:
        within = Within(project_id, cluster_id, service_id, repository_id)
        reports, actor = info.context.verbs.reports, info.context.actor
        return DeliveryReport.of(await reports.figures(actor, since, until, within, by))

    @strawberry.field(
        description="The newest deployments of a service, cluster, repository or project."
    )
    async def deployment_history(
        self,
        info: Info,
        first: int = 50,
        project_id: _Id = None,
        cluster_id: _Id = None,
        service_id: _Id = None,
        repository_id: _Id = None,
    ) -> list[DeploymentRecord]:
        within = Within(project_id, cluster_id, service_id, repository_id)
        named = await info.context.verbs.reports.newest(info.context.actor, within, first)
        return [DeploymentRecord.of(one, named) for one in named.deployments]

    @strawberry.field(description="The fleet as it was at a moment, as the ledger tells.")
    async def fleet(
        self, info: Info, at: datetime, project_id: _Id = None, cluster_id: _Id = None
    ) -> FleetMoment:
        within = Within(project_id, cluster_id)
        named = await info.context.verbs.reports.at(info.context.actor, at, within)
        return FleetMoment.of(at, named)

    @strawberry.field(description="What differs between the fleet at two moments.")
    async def fleet_changes(
        self,
        info: Info,
        then: datetime,
        now: datetime,
        project_id: _Id = None,
        cluster_id: _Id = None,
    ) -> list[FleetChange]:
        within = Within(project_id, cluster_id)
        reports, actor = info.context.verbs.reports, info.context.actor
        changes, named = await reports.difference(actor, then, now, within)
        return _changes(changes, named)

    @strawberry.field(description="Why a commit is not live: its walk to every service; with a "
                                  "repository, to all that follow it.")  # fmt: skip
    async def commit_trace(self, info: Info, sha: str, repository_id: _Id = None) -> CommitTrace:
        trace = await info.context.verbs.reports.trace(info.context.actor, sha, repository_id)
        return CommitTrace.of(trace)
