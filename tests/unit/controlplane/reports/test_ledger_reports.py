"""Reports on the ledger: windows, moments, commits, permissions and limits."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controlplane.authorization import ANONYMOUS, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.clusters.ports import ClusterStore
from controlplane.reports.model.dora import DeploymentChangeKind, ReportPeriod
from controlplane.reports.model.tracing import CommitPath, CommitStanding
from controlplane.reports.operations import LedgerReports, Trace
from controlplane.reports.ports import DesiredBetween, ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore, ServiceStore
from core.errors import Invalid, LimitExceeded, NotFound, Unauthenticated
from tests.fakes.actors import NOBODY, VIEWER, person
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_repository,
    make_service,
    operations_over_memory,
)

EU, US = make_cluster("eu"), make_cluster("us")
WEB = make_service("web", EU, repository_id="fleet")
API = make_service("api", US, repository_id="fleet")
FIRST, SECOND = "a" * 40, "a" * 7 + "b" * 33
SECOND_OF_TIME, HOUR, DAY = timedelta(seconds=1), timedelta(hours=1), timedelta(days=1)
EVERYTHING = ReportFilter()
OF_EU = person(BuiltInRole.VIEWER, "dana", Scope("cluster:eu"))


@pytest.fixture
async def world() -> MemoryOperations:
    """Two services at the first commit; after an hour, one of them at the second."""
    world = operations_over_memory()
    await world.given(EU, US, make_repository("fleet"), WEB, API)
    for service, sequence, sha, at in (
        (WEB, 1, FIRST, START),
        (API, 1, FIRST, START),
        (WEB, 2, SECOND, START + HOUR),
    ):
        await deploy(world, service, sequence, sha, at)
    await world.clock.advance(DAY.total_seconds())
    return world


async def deploy(
    world: MemoryOperations, service: Service, sequence: int, sha: str, at: datetime
) -> None:
    async with world.store.write() as tx:
        for stage in (LedgerStage.RENDERED, LedgerStage.HEALTHY):
            entry = LedgerEntry.of(service, stage, at)
            await tx[LedgerStore].append([replace(entry, sequence=sequence, sha=sha)])


@pytest.fixture
def reports(world: MemoryOperations) -> LedgerReports:
    return LedgerReports(world.context)


async def test_a_window_has_the_deployments_that_the_caller_may_see(
    reports: LedgerReports,
) -> None:
    for actor, begun in ((VIEWER, 3), (OF_EU, 2), (NOBODY, 0)):
        found = await reports.figures(actor, START, None, EVERYTHING)
        assert found.counts.begun == begun
    by_day = await reports.figures(VIEWER, START, START + 2 * DAY, EVERYTHING, ReportPeriod.DAY)
    assert [part.begun for part in by_day.parts] == [3, 0]


@pytest.mark.parametrize(
    ("since", "until", "period", "text"),
    [
        (START, START, None, "time window"),
        (START + HOUR, START, None, "time window"),
        (START + 2 * DAY, None, None, "time window"),
        (START - 1_100 * DAY - SECOND_OF_TIME, START, None, "time window"),
        (START - 401 * DAY, START, ReportPeriod.DAY, "periods: choose a longer period"),
    ],
)
async def test_an_unusable_window_is_refused(
    reports: LedgerReports,
    since: datetime,
    until: datetime | None,
    period: ReportPeriod | None,
    text: str,
) -> None:
    with pytest.raises(Invalid, match=text):
        await reports.figures(VIEWER, since, until, EVERYTHING, period)


@pytest.mark.parametrize(
    ("since", "period"),
    [
        (START - SECOND_OF_TIME, None),
        (START - 1_100 * DAY, None),
        (START - 400 * DAY, ReportPeriod.DAY),
    ],
)
async def test_the_shortest_and_the_longest_window_are_reported(
    reports: LedgerReports, since: datetime, period: ReportPeriod | None
) -> None:
    found = await reports.figures(VIEWER, since, START, EVERYTHING, period)
    assert (found.since, found.until) == (since, START)
    assert len(found.parts) == (400 if period else 0)


async def test_the_newest_deployments_have_names(reports: LedgerReports) -> None:
    found = await reports.newest(VIEWER, EVERYTHING, 1, DesiredBetween())
    (newest,) = found.deployments
    assert (newest.sha, found.names_of(newest)) == (SECOND, {"service": "web", "cluster": "eu"})
    gone = replace(newest, service_id="gone", cluster_id="gone")
    assert found.names_of(gone) == {"service": None, "cluster": None}
    for most in (0, 501):
        with pytest.raises(Invalid):
            await reports.newest(VIEWER, EVERYTHING, most, DesiredBetween())


async def test_the_fleet_is_shown_at_any_moment(reports: LedgerReports) -> None:
    async def at(moment: datetime, actor: Actor = VIEWER) -> list[tuple[str, str | None]]:
        found = await reports.at(actor, moment, EVERYTHING)
        return sorted((row.service_id, row.sha) for row in found.deployments)

    assert await at(START - HOUR) == []
    assert await at(START) == [(WEB.id, FIRST), (API.id, FIRST)]
    assert await at(START + HOUR) == [(WEB.id, SECOND), (API.id, FIRST)]
    assert await at(START, OF_EU) == [(WEB.id, FIRST)]


async def test_two_moments_are_compared(reports: LedgerReports) -> None:
    changes, names = await reports.difference(VIEWER, START, START + HOUR, EVERYTHING)
    assert [(change.kind, change.latest.service_id) for change in changes] == [
        (DeploymentChangeKind.CHANGED, WEB.id)
    ]
    assert names.services == {WEB.id: "web"}
    added, _ = await reports.difference(OF_EU, START - HOUR, START, EVERYTHING)
    assert [change.kind for change in added] == [DeploymentChangeKind.ADDED]


async def test_a_commit_is_followed_to_its_services(reports: LedgerReports) -> None:
    trace = await reports.trace(VIEWER, FIRST[:8])
    assert trace.sha == FIRST
    assert sorted(path.service.id for path in trace.paths) == [WEB.id, API.id]
    assert [path.service.id for path in (await reports.trace(OF_EU, FIRST)).paths] == [WEB.id]
    of_repository = await reports.trace(VIEWER, SECOND, "fleet")
    assert len(of_repository.paths) == 2
    of_eu = await reports.trace(OF_EU, SECOND, "fleet")
    assert [path.service.id for path in of_eu.paths] == [WEB.id]
    unseen = await reports.trace(VIEWER, "f" * 40, "fleet")
    assert (unseen.sha, len(unseen.paths), unseen.live) == ("f" * 40, 2, 0)
    with pytest.raises(NotFound):
        await reports.trace(VIEWER, "f" * 40, "none")


async def test_a_commit_is_followed_to_deleted_services(
    world: MemoryOperations, reports: LedgerReports
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].change(API.id, deleted_at=START)
        await tx[ClusterStore].change("us", deleted_at=START)
    paths = (await reports.trace(VIEWER, FIRST)).paths
    names = {path.service.id: path.cluster.handle for path in paths if path.cluster}
    assert names == {WEB.id: "eu", API.id: "us"}


async def test_a_commit_is_followed_after_all_of_its_services_are_gone(
    world: MemoryOperations, reports: LedgerReports
) -> None:
    async with world.store.write() as tx:
        await tx[ServiceStore].remove_each([WEB.id, API.id])
    trace = await reports.trace(VIEWER, FIRST[:8])
    assert (trace.sha, trace.paths) == (FIRST, [])


async def test_stragglers_are_those_without_the_commit_the_longest_waiting_first() -> None:
    def path(name: str, standing: CommitStanding, since: datetime | None) -> CommitPath:
        return CommitPath(make_service(name, EU), EU, None, standing, "", since)

    trace = Trace(
        FIRST,
        [],
        [
            path("late", CommitStanding.APPLYING, START + HOUR),
            path("live", CommitStanding.LIVE, START),
            path("earlier", CommitStanding.HELD, START),
            path("never", CommitStanding.RENDERING, None),
            path("later", CommitStanding.SUPERSEDED, START),
            path("untouched", CommitStanding.UNCHANGED, START),
        ],
    )
    assert [path.service.name for path in trace.stragglers] == ["never", "earlier", "late"]
    assert trace.live == 2


async def test_a_report_of_too_many_services_names_its_limit(
    world: MemoryOperations, reports: LedgerReports, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("controlplane.reports.operations.MAX_DEPLOYMENTS", 2)
    assert len((await reports.at(VIEWER, START, EVERYTHING)).deployments) == 2
    more = make_service("more", EU)
    await world.given(more)
    await deploy(world, more, 1, FIRST, START)
    for ask in (
        reports.at(VIEWER, START, EVERYTHING),
        reports.difference(VIEWER, START, START + HOUR, EVERYTHING),
    ):
        with pytest.raises(LimitExceeded, match="more than 2 services: specify a cluster"):
            await ask
    assert len((await reports.at(VIEWER, START, ReportFilter(cluster_id="us"))).deployments) == 1


@pytest.mark.parametrize(
    ("sha", "text"),
    [
        ("a" * 7, "ambiguous"),
        ("a" * 6, "at least its first 7"),
        ("main", "must be a commit id"),
        ("a" * 7 + "\n", "commit id"),
    ],
)
async def test_an_unclear_commit_is_refused(reports: LedgerReports, sha: str, text: str) -> None:
    with pytest.raises(Invalid, match=text):
        await reports.trace(VIEWER, sha)


async def test_a_commit_of_no_visible_service_is_not_found(reports: LedgerReports) -> None:
    for actor, sha in ((VIEWER, "c" * 40), (NOBODY, FIRST)):
        with pytest.raises(NotFound):
            await reports.trace(actor, sha)


async def test_reports_need_a_credential(reports: LedgerReports) -> None:
    asks: list[Callable[[], Awaitable[object]]] = [
        lambda: reports.figures(ANONYMOUS, START, None, EVERYTHING),
        lambda: reports.newest(ANONYMOUS, EVERYTHING, 1, DesiredBetween()),
        lambda: reports.at(ANONYMOUS, START, EVERYTHING),
        lambda: reports.difference(ANONYMOUS, START, START, EVERYTHING),
        lambda: reports.trace(ANONYMOUS, FIRST),
    ]
    for ask in asks:
        with pytest.raises(Unauthenticated):
            await ask()
