"""What agents tell: of clusters that tell at the same time it is committed by one transaction."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from controlplane.domain.clusters import Cluster
from controlplane.domain.ledger import LedgerEntry
from controlplane.domain.reports import CommandReport, InventoryReport, Report, StatusReport
from controlplane.domain.services import Phase, Problem
from controlplane.usecases.dependencies import wakes
from controlplane.usecases.deps import CLUSTER, SERVICE, Deps
from controlplane.usecases.intake import Intake, ledger_of
from controlplane.usecases.reportbatch import Bounds, ReportBatch, write_all
from controlplane.usecases.retrying import again
from fleet.errors import Conflict, NotFound, TowlineError
from fleet.identity import ClusterId
from fleet.runtime.batches import Batches
from fleet.runtime.tasks import finished

_OBJECTS_WEIGH_A_REPORT = 10
# Weights: of one cluster in one transaction, and above which others are not in the same one.
_MOST_AT_ONCE, _LITTLE = 50, 40


@dataclass(frozen=True, slots=True)
class Told:
    """What the agent of a cluster tells at once; `offered` is what it was sent before."""

    cluster_id: ClusterId
    reports: Sequence[Report]
    offered: Sequence[LedgerEntry] = ()

    @property
    def weight(self) -> int:
        """About how much there is to write."""
        return 1 + sum(map(_weight, self.reports))

    def parts(self) -> "Iterator[Told]":
        """The same in its order, in parts of which none holds up others for long.

        Each has one report at least, unless there are none at all.
        """
        part, weight, offered = list[Report](), 0, self.offered
        for report in self.reports:
            weight += _weight(report)
            if part and weight > _MOST_AT_ONCE:
                yield Told(self.cluster_id, part, offered)
                part, weight, offered = [], _weight(report), ()
            part.append(report)
        yield Told(self.cluster_id, part, offered)


class Reporting:
    """Commits what agents tell, each cluster's reports in their order."""

    def __init__(self, deps: Deps, bounds: Bounds) -> None:
        self._deps = deps
        self._bounds = bounds
        self._intake = Intake(deps)
        # To its end, though the agent leaves: whoever waits for what is committed is told of it.
        self._batches: Batches[Told, int] = Batches(
            lambda several: finished(self._take_in(several)),
            alone=_LITTLE,
            weight=lambda told: told.weight,
        )

    async def record(self, told: Told) -> int:
        """Commit reports; the number up to which all of the cluster's are committed. NotFound.

        Reports that were committed before are passed over, so sending again is harmless.
        """
        last = 0
        for part in told.parts():
            last = await self._record(part)
        return last

    @again
    async def _record(self, part: Told) -> int:
        return await self._batches.ask(part)

    async def note(self, cluster_id: ClusterId, body: CommandReport) -> None:
        """Note of a command what its agent cannot tell, as it was never sent."""
        async with self._deps.store.write() as tx:
            batch = (await ReportBatch.of_each(tx, {cluster_id: ()}, self._bounds))[cluster_id]
            await self._intake.take(body, batch, self._deps.clock.now())
        self._publish(batch.changed)

    async def refused(
        self, cluster_id: ClusterId, service_id: str, sequence: int, message: str
    ) -> None:
        """Note that a desired state cannot be sent to its agent, and why."""
        now = self._deps.clock.now()
        async with self._deps.store.write() as tx:
            service = await tx.services.find(id=service_id, cluster_id=cluster_id)
            if service is None or service.observed >= sequence:
                return
            body = StatusReport(
                service_id,
                sequence,
                service.digest or "",
                Phase.FAILED,
                (Problem("link", message),),
            )
            await tx.services.change(
                service_id,
                observed=sequence,
                phase=Phase.FAILED,
                problems=body.problems,
                observed_at=now,
            )
            await tx.ledger.append([ledger_of(service, body, now)])
        self._deps.bus.publish(SERVICE, service_id)

    async def _take_in(self, several: Sequence[Told]) -> list[int | TowlineError]:
        try:
            return await self._commit(several)
        except Conflict:
            # Agents of two clusters have found the same bundle to be bad: now its row is there.
            return await self._commit(several)

    async def _commit(self, several: Sequence[Told]) -> list[int | TowlineError]:
        async with self._deps.store.write() as tx:
            found = await tx.clusters.lock({told.cluster_id for told in several})
            clusters = {cluster.id: cluster for cluster in found}
            last, news = _news(several, clusters)
            batches = await ReportBatch.of_each(tx, news, self._bounds)
            for id, reports in news.items():
                for report in reports:
                    await self._intake.take(report.body, batches[id], report.at)
            offered = (row for told in several if told.cluster_id in news for row in told.offered)
            await write_all(tx, batches.values(), offered)
            changed = await wakes(tx, [id for id in news if _tells_health(news[id])])
            await tx.clusters.change_each(
                {id: self._columns(clusters[id], last[id], batches[id]) for id in news}
            )
        self._publish(changed.union(*(batch.changed for batch in batches.values())))
        gone = NotFound("this cluster was deleted")
        return [last.get(told.cluster_id, gone) for told in several]

    def _columns(self, cluster: Cluster, last: int, batch: ReportBatch) -> dict[str, Any]:
        """What is to be written of a cluster after a batch."""
        told: dict[str, Any] = {"acknowledged": last, "pinged_at": self._deps.clock.now()}
        if (alarm := batch.alarm(cluster.alarm)) != cluster.alarm:
            told["alarm"] = alarm
            batch.changed.add((CLUSTER, cluster.id))
        return told

    def _publish(self, changed: Iterable[tuple[str, str]]) -> None:
        for topic, key in changed:
            self._deps.bus.publish(topic, key)


def _news(
    several: Iterable[Told], clusters: Mapping[ClusterId, Cluster]
) -> tuple[dict[ClusterId, int], dict[ClusterId, list[Report]]]:
    """The number up to which each cluster's reports are committed now, and those that are new."""
    last = {id: cluster.acknowledged for id, cluster in clusters.items()}
    news: dict[ClusterId, list[Report]] = {id: [] for id in clusters}
    for told in several:
        for report in told.reports if told.cluster_id in clusters else ():
            if report.number > last[told.cluster_id]:
                last[told.cluster_id] = report.number
                news[told.cluster_id].append(report)
    return last, news


def _tells_health(reports: Iterable[Report]) -> bool:
    """Whether others may have waited for what these tell."""
    bodies = [report.body for report in reports]
    return any(isinstance(body, StatusReport) and body.phase is Phase.HEALTHY for body in bodies)


def _weight(report: Report) -> int:
    """One, and one more for as many objects as cost the same."""
    body = report.body
    objects = len(body.present) + len(body.gone) if isinstance(body, InventoryReport) else 0
    return 1 + objects // _OBJECTS_WEIGH_A_REPORT
