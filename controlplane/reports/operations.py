"""Reports from the ledger: delivery metrics, the fleet at a point in time, and a commit's path."""

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TypeVar

from controlplane.authorization import Actor, ResourceKind, Verb, require_member
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import ContextOperations
from controlplane.platform.labels import LabelOperator, LabelRequirement
from controlplane.platform.limits import check_range
from controlplane.platform.ports import DeletableRows, Transaction
from controlplane.reports.model.dora import (
    Deployment,
    DeploymentChange,
    DoraMetrics,
    ReportPeriod,
    compare_deployments,
)
from controlplane.reports.model.tracing import (
    ARRIVED,
    CommitPath,
    CommitStanding,
    StageTime,
    commit_path,
    stage_times,
)
from controlplane.reports.ports import DeploymentStore, DesiredBetween, ReportFilter
from controlplane.services.model.service import Service
from controlplane.services.ports import ServiceStore
from core.errors import Invalid, LimitExceeded, NotFound

T = TypeVar("T")
MAX_WINDOW_DAYS = 1_100
MAX_PERIODS = 400
MAX_GROUPS = 50
MAX_DEPLOYMENTS = 20_000
_MAX_SERVICES = 5_000
_BATCH = 2_000
_SHA = re.compile(r"[0-9a-f]{7,64}")


@dataclass(frozen=True, slots=True)
class NamedDeployments:
    """Deployments, with the names of services and the handles of clusters that still exist."""

    deployments: Sequence[Deployment]
    services: Mapping[str, str]
    clusters: Mapping[str, str]

    def names_of(self, deployment: Deployment) -> dict[str, str | None]:
        """Names of the service and the cluster of a deployment. None: it was deleted."""
        service, cluster = deployment.service_id, deployment.cluster_id
        return {"service": self.services.get(service), "cluster": self.clusters.get(cluster)}


@dataclass(frozen=True, slots=True)
class LabelGroup:
    """DORA metrics of the services with one value of a label. None: those without the label."""

    value: str | None
    metrics: DoraMetrics


@dataclass(frozen=True, slots=True)
class Trace:
    """The path of a commit to all services that it affects."""

    sha: str
    """Full SHA of the commit."""
    stages: Sequence[StageTime]
    """Duration of each stage."""
    paths: Sequence[CommitPath]

    @property
    def live(self) -> int:
        """Number of services that run the commit or a later one."""
        return sum(path.standing in ARRIVED - {CommitStanding.UNCHANGED} for path in self.paths)

    @property
    def stragglers(self) -> list[CommitPath]:
        """The paths that have not completed, longest waiting first."""
        late = [path for path in self.paths if path.standing not in ARRIVED]
        return sorted(late, key=lambda path: (path.since is not None, path.since))


class LedgerReports(ContextOperations):
    """Queries on the ledger."""

    async def figures(
        self,
        actor: Actor,
        since: datetime,
        until: datetime | None,
        within: ReportFilter,
        period: ReportPeriod | None = None,
    ) -> DoraMetrics:
        """DORA metrics of a time window; `until` defaults to now."""
        require_member(actor)
        until = until or self._context.clock.now()
        length = until - since
        if not 0 < length.total_seconds() <= MAX_WINDOW_DAYS * 86_400:
            raise Invalid(f"the time window must be 1 s to {MAX_WINDOW_DAYS} days", field="since")
        if period and length / period.length > MAX_PERIODS:
            raise Invalid(f"more than {MAX_PERIODS} periods: choose a longer period", field="by")
        visible = actor.policy.visible(ResourceKind.SERVICE)
        async with self._context.store.read() as tx:
            return await tx[DeploymentStore].figures(since, until, within, visible, period)

    async def by_label(
        self, actor: Actor, since: datetime, until: datetime, within: ReportFilter, key: str
    ) -> list[LabelGroup]:
        """DORA metrics of the services with each value of a label, and of those without the label.

        Groups without deployments are left out; those of the first 50 values are returned.
        """
        require_member(actor)
        present = LabelRequirement(key, LabelOperator.Exists)
        present.check("label")
        visible = actor.policy.visible(ResourceKind.SERVICE)
        async with self._context.store.read() as tx:
            values = await tx[DeploymentStore].label_values(key, visible, MAX_GROUPS)
        groups = [(value, LabelRequirement(key, LabelOperator.In, (value,))) for value in values]
        absent = LabelRequirement(key, LabelOperator.DoesNotExist)
        label_groups = []
        for value, label in [*groups, (None, absent)]:
            narrowed = replace(within, labels=(*within.labels, label))
            label_groups.append(
                LabelGroup(value, await self.figures(actor, since, until, narrowed))
            )
        return [group for group in label_groups if group.metrics.counts.begun]

    async def newest(
        self, actor: Actor, within: ReportFilter, limit: int, between: DesiredBetween
    ) -> NamedDeployments:
        """The newest deployments of a service, cluster, repository or project."""
        require_member(actor)
        check_range(limit, "first", 1, 500)
        visible = actor.policy.visible(ResourceKind.SERVICE)
        async with self._context.store.read() as tx:
            return await _with_names(
                tx, await tx[DeploymentStore].newest(within, visible, limit, between)
            )

    async def at(self, actor: Actor, moment: datetime, within: ReportFilter) -> NamedDeployments:
        """The desired state of the fleet at a point in time."""
        async with self._context.read(actor) as tx:
            return await _with_names(tx, await self._deployments_at(tx, actor, moment, within))

    async def difference(
        self, actor: Actor, then: datetime, now: datetime, within: ReportFilter
    ) -> tuple[Sequence[DeploymentChange], NamedDeployments]:
        """The changes between two points in time."""
        async with self._context.read(actor) as tx:
            before = await self._deployments_at(tx, actor, then, within)
            after = await self._deployments_at(tx, actor, now, within)
            changes = compare_deployments(before, then, after, now)
            return changes, await _with_names(tx, [change.latest for change in changes])

    async def trace(self, actor: Actor, sha: str, repository_id: str | None = None) -> Trace:
        """The progress of a commit. NotFound: no service has or will get it."""
        require_member(actor)
        if not _SHA.fullmatch(sha):
            raise Invalid("must be a commit id, or at least its first 7 characters", field="sha")
        visible = actor.policy.visible(ResourceKind.SERVICE)
        async with self._context.store.read() as tx:
            deployments = await tx[DeploymentStore].deployments_of_commit(sha, visible)
            if len({deployment.sha for deployment in deployments}) > 1:
                raise Invalid(
                    "ambiguous: several commits start with this; give more characters", field="sha"
                )
            services = await self._affected_services(tx, actor, deployments, repository_id)
            cluster_ids = {service.cluster_id for service in services}
            rows = await _read_batches(tx[ClusterStore], cluster_ids)
            clusters = {cluster.id: cluster for cluster in rows}
        if not deployments and not services:
            raise NotFound(kind=ResourceKind.SERVICE)
        newest = {deployment.service_id: deployment for deployment in deployments}
        now = self._context.clock.now()
        paths = [
            commit_path(s, clusters.get(s.cluster_id), newest.get(s.id), now) for s in services
        ]
        full_sha = next((row.sha for row in deployments if row.sha), sha)
        return Trace(full_sha, stage_times(deployments), paths)

    async def _deployments_at(
        self, tx: Transaction, actor: Actor, moment: datetime, within: ReportFilter
    ) -> list[Deployment]:
        deployments = await tx[DeploymentStore].at(
            moment, within, actor.policy.visible(ResourceKind.SERVICE), MAX_DEPLOYMENTS + 1
        )
        if len(deployments) > MAX_DEPLOYMENTS:
            raise LimitExceeded(
                f"more than {MAX_DEPLOYMENTS:,} services: specify a cluster or a project"
            )
        return deployments

    async def _affected_services(
        self,
        tx: Transaction,
        actor: Actor,
        deployments: Sequence[Deployment],
        repository_id: str | None,
    ) -> list[Service]:
        """The services of a repository; without one, those that had the commit."""
        if repository_id:
            services = await tx[ServiceStore].of_repository(repository_id)
        else:
            ids = {deployment.service_id for deployment in deployments}
            services = await _read_batches(tx[ServiceStore], ids)
        if len(services) > _MAX_SERVICES:
            raise LimitExceeded(
                f"{len(services):,} services, but at most {_MAX_SERVICES:,} are allowed"
            )
        return [service for service in services if actor.may(Verb.READ, service.target)]


async def _with_names(tx: Transaction, deployments: Sequence[Deployment]) -> NamedDeployments:
    services = await tx[DeploymentStore].service_names(
        {deployment.service_id for deployment in deployments}
    )
    handles = await tx[DeploymentStore].cluster_handles(
        {deployment.cluster_id for deployment in deployments}
    )
    return NamedDeployments(deployments, services, handles)


async def _read_batches(store: DeletableRows[T], ids: Collection[str]) -> list[T]:
    """Reads rows, also deleted ones, in parts that fit the parameters of one statement."""
    ordered, rows = sorted(ids), []
    for start in range(0, len(ordered), _BATCH):
        rows += await store.by_ids(ordered[start : start + _BATCH], deleted=True)
    return rows
