"""Delivery metrics for each value of a label, over the store in memory."""

from dataclasses import replace
from datetime import timedelta

import pytest

from controlplane.authorization import ANONYMOUS
from controlplane.manifests.model.ownership import DeclaredResource
from controlplane.platform.labels import parse_selector
from controlplane.reports.operations import LedgerReports
from controlplane.reports.ports import ReportFilter
from controlplane.services.model.ledger import LedgerEntry, LedgerStage
from controlplane.services.ports import LedgerStore
from core.errors import Invalid, Unauthenticated
from tests.fakes.actors import NOBODY, VIEWER
from tests.fakes.clock import START
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

EU = make_cluster("eu")
SERVICES = [make_service(name, EU) for name in ("web", "api", "job", "bare", "idle")]
TEAMS = {"web": "shop", "api": "shop", "job": "ops", "idle": "idle"}
END = START + timedelta(days=1)


@pytest.fixture
async def world() -> MemoryOperations:
    """Services of two teams, one without a team, and one without a deployment."""
    operations = operations_over_memory()
    await operations.given(EU, *SERVICES)
    await operations.given(
        *(
            DeclaredResource(row.id, "ServiceDeployment", {"team": TEAMS[row.name]})
            for row in SERVICES
            if row.name in TEAMS
        )
    )
    async with operations.store.write() as tx:
        for row in SERVICES[:-1]:
            entry = LedgerEntry.of(row, LedgerStage.RENDERED, START)
            await tx[LedgerStore].append([replace(entry, sequence=1)])
    return operations


async def test_each_value_of_a_label_has_its_metrics(world: MemoryOperations) -> None:
    """Services without the label come last; a team without deployments is left out."""
    reports = LedgerReports(world.context)
    groups = await reports.by_label(VIEWER, START, END, ReportFilter(), "team")
    assert [(group.value, group.metrics.counts.begun) for group in groups] == [
        ("ops", 1),
        ("shop", 2),
        (None, 1),
    ]


async def test_the_other_filters_hold_too(world: MemoryOperations) -> None:
    within = ReportFilter(labels=parse_selector("team in (ops)"))
    groups = await LedgerReports(world.context).by_label(VIEWER, START, END, within, "team")
    assert [group.value for group in groups] == ["ops"]


async def test_who_sees_no_service_sees_no_team(world: MemoryOperations) -> None:
    reports = LedgerReports(world.context)
    assert await reports.by_label(NOBODY, START, END, ReportFilter(), "team") == []
    with pytest.raises(Unauthenticated):
        await reports.by_label(ANONYMOUS, START, END, ReportFilter(), "team")


async def test_a_name_that_no_label_has_is_refused(world: MemoryOperations) -> None:
    with pytest.raises(Invalid, match="no name of a label"):
        await LedgerReports(world.context).by_label(VIEWER, START, END, ReportFilter(), "a b")
