"""Reports on the ledger: windows, moments, commits, permissions and limits."""

from collections.abc import Awaitable, Callable
from dataclasses import replace
from datetime import datetime, timedelta

import pytest

from controlplane.authorization import ANONYMOUS, Actor, Scope
from controlplane.authorization.roles import BuiltInRole
from controlplane.reports.model.dora import DeploymentChangeKind, ReportPeriod
from controlplane.reports.operations import LedgerReports
from controlplane.reports.ports import DesiredBetween, ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.model.service import Service
from controlplane.services.ports import LedgerStore
from core.errors import Invalid, NotFound, Unauthenticated
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
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
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
        (START - 10_000 * DAY, START, None, "time window"),
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
