"""Reports of many clusters by one transaction, on both databases."""

import asyncio
from collections.abc import Sequence
from typing import cast

import pytest

from controlplane.agents.operations.report_batch import ReportLimits
from controlplane.agents.operations.reports import AgentReports, ReportCommitter
from controlplane.clusters.model.cluster import Cluster
from controlplane.clusters.ports import ClusterStore
from controlplane.platform.bus.memory import MemoryBus
from controlplane.platform.context import SERVICE, OperationContext
from controlplane.platform.git_ports import ManifestSource
from controlplane.platform.ports import Store
from controlplane.platform.sealing import Sealer
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import ComponentStore, LedgerStore, ServiceStore
from core.errors import NotFound
from core.identity import ClusterId, ServiceId
from core.spec.health import HealthState
from core.spec.objects import ObjectRef
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.reports.report import Report
from core.spec.status import Phase, SyncStatus
from tests.fakes.clock import START, FakeClock

NAMES = ("a", "b", "c", "d")
CLUSTERS = tuple(ClusterId(f"cluster-{name}") for name in NAMES)
UNKEEPABLE = 1 << 70


@pytest.fixture
def bus() -> MemoryBus:
    return MemoryBus()


@pytest.fixture
async def reporting(store: Store, bus: MemoryBus) -> ReportCommitter:
    """With a service in each cluster."""
    async with store.write() as tx:
        for id, name in zip(CLUSTERS, NAMES, strict=True):
            await tx[ClusterStore].add(Cluster(id, name, name, START, START))
            service = Service(ServiceId(f"in-{id}"), id, None, "web", "web", START, START)
            await tx[ServiceStore].add(service.changed(generation=1))
    deps = OperationContext(store, bus, FakeClock(), cast(ManifestSource, None), cast(Sealer, None))
    return ReportCommitter(deps, ReportLimits(components=4))


def reports_of(id: ClusterId, first: int = 1, sequence: int = 1, objects: int = 1) -> AgentReports:
    """An inventory and that it is healthy, after the offer of it."""
    service = f"in-{id}"
    present = [
        ObservedComponent(
            ObjectRef("", "v1", "ConfigMap", "web", f"m{number}"),
            f"uid-{number}",
            "",
            HealthState.HEALTHY,
            synced=True,
            images=("nginx:1",),
        )
        for number in range(objects)
    ]
    inventory = InventoryChange(service, True, tuple(present))
    status = SyncStatus(service, sequence, "sha256:x", Phase.HEALTHY, ())
    offered = LedgerEntry(service, id, LedgerStage.OFFERED, START, sequence=sequence)
    reports = [Report(first, START, inventory), Report(first + 1, START, status)]
    return AgentReports(id, reports, [offered])


async def at_once(
    reporting: ReportCommitter, several: Sequence[AgentReports]
) -> list[int | BaseException]:
    """The answers; the first of them is worked on alone, all others together."""
    return await asyncio.gather(*map(reporting.record, several), return_exceptions=True)


async def phases(store: Store) -> list[Phase | None]:
    async with store.read() as tx:
        return [one.observed.phase for one in await tx[ServiceStore].all()]


async def test_concurrent_reports_of_clusters_are_all_stored(
    store: Store, reporting: ReportCommitter, bus: MemoryBus
) -> None:
    wakes = bus.subscribe(SERVICE)
    assert await at_once(reporting, [reports_of(id) for id in CLUSTERS]) == [2, 2, 2, 2]
    assert await phases(store) == [Phase.HEALTHY] * 4
    woken = {(await anext(wakes))[1] for _ in CLUSTERS}
    assert woken == {f"in-{id}" for id in CLUSTERS}
    async with store.read() as tx:
        assert [one.acknowledged for one in await tx[ClusterStore].all()] == [2] * 4
        assert await tx[ComponentStore].count_by_cluster(CLUSTERS) == dict.fromkeys(CLUSTERS, 1)
        for id in CLUSTERS:
            rows = await tx[LedgerStore].select(cluster_id=id)
            assert [one.stage for one in rows] == [LedgerStage.OFFERED, LedgerStage.HEALTHY]


async def test_a_report_of_an_agent_that_disconnects_is_still_published(
    store: Store, reporting: ReportCommitter, bus: MemoryBus
) -> None:
    """It is committed, so nobody tells of it again."""
    wakes = bus.subscribe(SERVICE)
    leaving = asyncio.ensure_future(reporting.record(reports_of(CLUSTERS[0])))
    await asyncio.sleep(0)
    leaving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await leaving
    assert (await phases(store))[0] is Phase.HEALTHY
    assert (await anext(wakes))[1] == f"in-{CLUSTERS[0]}"


async def test_a_report_that_cannot_be_stored_fails_no_other_cluster(
    store: Store, reporting: ReportCommitter
) -> None:
    several = [reports_of(id, sequence=UNKEEPABLE if id == CLUSTERS[2] else 1) for id in CLUSTERS]
    answers = await at_once(reporting, several)
    assert [answers[at] for at in (0, 1, 3)] == [2, 2, 2]
    assert isinstance(answers[2], Exception)
    assert await phases(store) == [Phase.HEALTHY, Phase.HEALTHY, None, Phase.HEALTHY]
    async with store.read() as tx:
        rows = await tx[LedgerStore].select(cluster_id=CLUSTERS[2])
        clusters = await tx[ClusterStore].all()
    assert rows == [] and [one.acknowledged for one in clusters] == [2, 2, 0, 2]


async def test_only_the_deleted_cluster_gets_not_found(reporting: ReportCommitter) -> None:
    answers = await at_once(
        reporting, [reports_of(CLUSTERS[0]), reports_of(ClusterId("no")), reports_of(CLUSTERS[1])]
    )
    assert (answers[0], answers[2]) == (2, 2)
    assert isinstance(answers[1], NotFound)


async def test_reports_sent_by_two_calls_of_a_cluster_count_once(
    store: Store, reporting: ReportCommitter
) -> None:
    """An agent has come again, and the end of its call before is still being worked on."""
    b = CLUSTERS[1]
    calls = [
        reports_of(CLUSTERS[0]),
        reports_of(b),
        reports_of(b),
        reports_of(b, first=3, sequence=2),
    ]
    assert (await at_once(reporting, calls))[3] == 4
    async with store.read() as tx:
        rows = await tx[LedgerStore].select(cluster_id=b, stage=LedgerStage.HEALTHY)
        service = await tx[ServiceStore].get(f"in-{b}")
    assert [one.sequence for one in rows] == [1, 2]
    assert service is not None and service.observed.observed_generation == 2


async def test_each_cluster_has_bounds_of_its_own(store: Store, reporting: ReportCommitter) -> None:
    """The limit is four components; a cluster that reports more takes no room from others."""
    assert await at_once(reporting, [reports_of(id) for id in CLUSTERS]) == [2, 2, 2, 2]
    more = [reports_of(id, first=3, objects=5 if id == CLUSTERS[1] else 3) for id in CLUSTERS]
    assert await at_once(reporting, more) == [4, 4, 4, 4]
    async with store.read() as tx:
        counted = await tx[ComponentStore].count_by_cluster(CLUSTERS)
        alarmed = [one.id for one in await tx[ClusterStore].all() if one.alarm]
    assert counted == dict.fromkeys(CLUSTERS, 3) | {CLUSTERS[1]: 1}
    assert alarmed == [CLUSTERS[1]]


async def test_one_that_tells_of_much_holds_up_nobody(
    store: Store, reporting: ReportCommitter
) -> None:
    """Its reports are committed in parts, with others between, and completely in the end."""
    loud, calm, *_ = CLUSTERS
    much = [reports_of(loud, first=1 + 2 * turn, objects=600).reports for turn in range(3)]
    reports = [one for some in much for one in some]
    ends: list[ClusterId] = []

    async def ended(what: AgentReports) -> int:
        number = await reporting.record(what)
        ends.append(what.cluster_id)
        return number

    assert await asyncio.gather(ended(AgentReports(loud, reports)), ended(reports_of(calm))) == [
        6,
        2,
    ]
    assert ends == [calm, loud]


def test_parts_keep_the_order_and_what_was_offered_comes_first() -> None:
    a, *_ = CLUSTERS
    many = AgentReports(a, [*reports_of(a).reports] * 60, reports_of(a).offered)
    parts = list(many.split())
    assert [one for part in parts for one in part.reports] == many.reports
    assert [len(part.offered) for part in parts] == [1, 0, 0]
    assert list(AgentReports(a, []).split()) == [AgentReports(a, [])]
