"""The DORA metrics of a window, and services compared at two moments."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controlplane.reports.model.dora import (
    Deployment,
    DeploymentChangeKind,
    DeploymentCounts,
    DoraMetrics,
    ReportPeriod,
    compare_deployments,
    nearest_rank,
    period_edges,
)
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.model.status_codes import StatusCode

THEN = datetime(2026, 1, 1, tzinfo=UTC)
NOW = THEN + timedelta(days=7)
MINUTE = timedelta(minutes=1)
WEB = Deployment("web", 1, "eu", LedgerStage.HEALTHY, THEN, applied_at=THEN, healthy_at=THEN)
NEXT = replace(WEB, sequence=2)


@pytest.mark.parametrize(
    ("columns", "code"),
    [
        ({"applied_at": None, "healthy_at": None}, StatusCode.PROGRESSING),
        ({"applied_at": NOW + MINUTE, "healthy_at": None}, StatusCode.PROGRESSING),
        ({"healthy_at": None}, StatusCode.SYNCED),
        ({"healthy_at": NOW + MINUTE}, StatusCode.SYNCED),
        ({"healthy_at": NOW}, StatusCode.HEALTHY),
        ({"failed_at": NOW}, StatusCode.FAILED),
        ({"failed_at": NOW + MINUTE}, StatusCode.HEALTHY),
        ({"failed_at": THEN, "restored_at": NOW}, StatusCode.HEALTHY),
        ({"failed_at": THEN, "restored_at": NOW + MINUTE}, StatusCode.FAILED),
    ],
)
def test_a_deployment_has_the_status_of_its_stages_at_a_moment(
    columns: dict[str, Any], code: StatusCode
) -> None:
    assert replace(WEB, **columns).status_code(NOW) is code


def test_services_are_compared_at_two_moments() -> None:
    api, job = replace(WEB, service_id="api"), replace(WEB, service_id="job")
    (added, removed, changed) = compare_deployments([job, WEB], THEN, [api, NEXT], NOW)
    assert (added.kind, added.before, added.after) == (DeploymentChangeKind.ADDED, None, api)
    assert (added.status_before, added.status_after) == (None, StatusCode.HEALTHY)
    assert (removed.kind, removed.latest) == (DeploymentChangeKind.REMOVED, job)
    assert (removed.status_before, removed.status_after) == (StatusCode.HEALTHY, None)
    assert (changed.kind, changed.before, changed.latest) == (
        DeploymentChangeKind.CHANGED,
        WEB,
        NEXT,
    )


def test_a_service_with_the_same_state_has_not_changed() -> None:
    assert compare_deployments([WEB], THEN, [replace(WEB, actor="ada")], NOW) == []
    failed = replace(WEB, failed_at=NOW)
    (change,) = compare_deployments([failed], THEN, [failed], NOW)
    assert (change.status_before, change.status_after) == (StatusCode.HEALTHY, StatusCode.FAILED)


@given(st.integers(1, 10_000), st.sampled_from([50, 90]))
def test_a_percentile_is_the_least_value_that_the_share_does_not_exceed(
    count: int, percent: int
) -> None:
    rank = nearest_rank(count, percent / 100)
    assert 0 <= rank < count
    assert 100 * rank < percent * count <= 100 * (rank + 1)


def test_a_window_without_deployments_has_no_rates() -> None:
    empty = DoraMetrics(THEN, THEN, DeploymentCounts())
    assert (empty.per_day, empty.counts.failure_rate) == (0.0, None)
    week = DoraMetrics(THEN, NOW, DeploymentCounts(begun=8, healthy=7, failed=2))
    assert (week.per_day, week.counts.failure_rate) == (1.0, 0.25)


def test_parts_of_a_report_have_equal_lengths() -> None:
    assert [period.length.days for period in ReportPeriod] == [1, 7, 30]


@pytest.mark.parametrize(
    ("days", "period", "lengths"),
    [
        (2, ReportPeriod.DAY, [1, 1]),
        (2.5, ReportPeriod.DAY, [1, 1, 0.5]),
        (0.5, ReportPeriod.DAY, [0.5]),
        (60, ReportPeriod.MONTH, [30, 30]),
        (2.5, None, [2.5]),
    ],
)
def test_a_window_has_no_empty_period(
    days: float, period: ReportPeriod | None, lengths: list[float]
) -> None:
    """Only the last one is shorter, in a window that the periods do not fill."""
    edges = period_edges(THEN, THEN + timedelta(days=days), period)
    assert [(end - start) / timedelta(days=1) for start, end in pairwise(edges)] == lengths
