"""Commits reports of agents; clusters that report at the same time share one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from controlplane.agents.operations.report_batch import (
    ReportBatch,
    ReportLimits,
    with_stored_id,
    write_all,
)
from controlplane.agents.operations.report_handlers import ReportHandler, status_entry
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.context import CLUSTER, SERVICE, OperationContext
from controlplane.platform.parts import Columns
from controlplane.platform.retry import retry_on_collision
from controlplane.services.model.ledger import LedgerEntry
from controlplane.services.operations.dependencies import dependents_to_wake
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Conflict, NotFound, TowlineError
from core.identity import ClusterId
from core.runtime.batcher import Batcher
from core.runtime.tasks import run_to_completion
from core.spec.reports.commands import CommandAnswer
from core.spec.reports.inventory import InventoryChange
from core.spec.reports.report import Report
from core.spec.status import Phase, Problem, SyncStatus

_OBJECTS_PER_WEIGHT = 10
# Weights: maximum of one cluster per transaction, and maximum for sharing a transaction.
_MAX_AT_ONCE, _MAX_SHARED = 50, 40


@dataclass(frozen=True, slots=True)
class AgentReports:
    """Reports of a cluster's agent; `offered` are the desired states that it was sent before."""

    cluster_id: ClusterId
    reports: Sequence[Report]
    offered: Sequence[LedgerEntry] = ()

    @property
    def weight(self) -> int:
        """Approximate amount of data to write."""
        return 1 + sum(map(_weight, self.reports))

    def split(self) -> "Iterator[AgentReports]":
        """Splits the reports, in order, into parts that do not delay other clusters for long.

        Each part has at least one report, unless there are none.
        """
        part, weight, offered = list[Report](), 0, self.offered
        for report in self.reports:
            weight += _weight(report)
            if part and weight > _MAX_AT_ONCE:
                yield AgentReports(self.cluster_id, part, offered)
                part, weight, offered = [], _weight(report), ()
            part.append(report)
        yield AgentReports(self.cluster_id, part, offered)


class ReportCommitter:
    """Commits reports of agents, each cluster's reports in order."""

    def __init__(self, context: OperationContext, limits: ReportLimits) -> None:
        self._context = context
        self._limits = limits
        self._handler = ReportHandler(context)
        # Runs to its end even if the agent disconnects: others in the batch wait for the commit.
        self._batches: Batcher[AgentReports, int] = Batcher(
            lambda requests: run_to_completion(self._commit_batch(requests)),
            max_shared_weight=_MAX_SHARED,
            weight=lambda agent_reports: agent_reports.weight,
        )

    async def record(self, agent_reports: AgentReports) -> int:
        """Commits reports; returns the number of the cluster's last committed report. NotFound.

        Reports that were committed before are skipped, so an agent may send them again.
        """
        last = 0
        for part in agent_reports.split():
            last = await self._record_part(part)
        return last

    @retry_on_collision
    async def _record_part(self, part: AgentReports) -> int:
        return await self._batches.submit(part)

    async def record_unsent_command(self, cluster_id: ClusterId, body: CommandAnswer) -> None:
        """Records the result of a command that was never sent to its agent."""
        async with self._context.store.write() as tx:
            batch = (await ReportBatch.for_clusters(tx, {cluster_id: ()}, self._limits))[cluster_id]
            await self._handler.apply(body, batch, self._context.clock.now())
        self._publish(batch.changed)

    async def record_unsent_state(
        self, cluster_id: ClusterId, service_id: str, sequence: int, message: str
    ) -> None:
        """Records why a desired state cannot be sent to its agent."""
        now = self._context.clock.now()
        async with self._context.store.write() as tx:
            service = await tx[ServiceStore].in_cluster(service_id, cluster_id)
            if service is None or service.observed.observed_generation >= sequence:
                return
            body = SyncStatus(
                service_id,
                sequence,
                service.desired.digest or "",
                Phase.FAILED,
                (Problem(message, source="link"),),
            )
            await tx[ServiceStore].change(
                service_id,
                observed_generation=sequence,
                phase=Phase.FAILED,
                problems=body.problems,
                observed_at=now,
            )
            await tx[LedgerStore].append([status_entry(service, body, now)])
        self._context.bus.publish(SERVICE, service_id)

    async def _commit_batch(self, requests: Sequence[AgentReports]) -> list[int | TowlineError]:
        try:
            return await self._commit(requests)
        except Conflict:
            # Agents of two clusters denied the same bundle; on the retry its row exists.
            return await self._commit(requests)

    async def _commit(self, requests: Sequence[AgentReports]) -> list[int | TowlineError]:
        async with self._context.store.write() as tx:
            locked = await tx[ClusterStore].lock(
                {agent_reports.cluster_id for agent_reports in requests}
            )
            clusters = {cluster.id: cluster for cluster in locked}
            last, new_reports = _new_reports(requests, clusters)
            batches = await ReportBatch.for_clusters(tx, new_reports, self._limits)
            for id, reports in new_reports.items():
                for report in reports:
                    await self._handler.apply(report.body, batches[id], report.at)
            offered = (
                row
                for agent_reports in requests
                if agent_reports.cluster_id in new_reports
                for row in agent_reports.offered
            )
            await write_all(tx, batches.values(), offered)
            changed = await dependents_to_wake(
                tx, [id for id in new_reports if _reports_health(new_reports[id])]
            )
            await tx[ClusterStore].change_each(
                {
                    id: self._cluster_columns(clusters[id], last[id], batches[id])
                    for id in new_reports
                }
            )
        self._publish(changed.union(*(batch.changed for batch in batches.values())))
        not_found = NotFound("this cluster was deleted")
        return [last.get(agent_reports.cluster_id, not_found) for agent_reports in requests]

    def _cluster_columns(self, cluster: Cluster, last: int, batch: ReportBatch) -> Columns:
        """The columns of a cluster after a batch."""
        columns: Columns = {"acknowledged": last, "pinged_at": self._context.clock.now()}
        if (alarm := batch.alarm(cluster.alarm)) != cluster.alarm:
            columns["alarm"] = alarm
            batch.changed.add((CLUSTER, cluster.id))
        return columns

    def _publish(self, changed: Iterable[tuple[str, str]]) -> None:
        for topic, key in changed:
            self._context.bus.publish(topic, key)


def _new_reports(
    requests: Iterable[AgentReports], clusters: Mapping[ClusterId, Cluster]
) -> tuple[dict[ClusterId, int], dict[ClusterId, list[Report]]]:
    """The number of the last report of each cluster, and the reports that are new, with stored
    ids."""
    last = {id: cluster.acknowledged for id, cluster in clusters.items()}
    new_reports: dict[ClusterId, list[Report]] = {id: [] for id in clusters}
    for agent_reports in requests:
        for report in agent_reports.reports if agent_reports.cluster_id in clusters else ():
            if report.number > last[agent_reports.cluster_id]:
                last[agent_reports.cluster_id] = report.number
                body = with_stored_id(agent_reports.cluster_id, report.body)
                new_reports[agent_reports.cluster_id].append(replace(report, body=body))
    return last, new_reports


def _reports_health(reports: Iterable[Report]) -> bool:
    """True if a report may unblock services that wait for a dependency."""
    bodies = [report.body for report in reports]
    return any(isinstance(body, SyncStatus) and body.phase is Phase.HEALTHY for body in bodies)


def _weight(report: Report) -> int:
    """Weight of a report: 1, plus 1 for every `_OBJECTS_PER_WEIGHT` objects."""
    body = report.body
    objects = len(body.present) + len(body.gone) if isinstance(body, InventoryChange) else 0
    return 1 + objects // _OBJECTS_PER_WEIGHT
