"""Requests and output of the commands for search and reports."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import Invalid
from core.runtime.clock import SystemClock
from tests.fakes.api import FakeApi
from towline.cli import program
from towline.cli.reports import fleet
from towline.cli.reports import generated as report_api
from towline.cli.reports.fleet import time_of
from towline.cli.services import generated as service_api
from towline.cli.services import search

OBJECT = {"kind": "Pod", "namespace": "shop", "name": "web-1", "state": "RUNNING"}
ROW = {"id": "1", "cluster": "prod", "service": "web", "ageSeconds": 900.0, "stale": True}
TRACE = {
    "sha": "1f2e3d4c5b6a",
    "services": 3,
    "live": 2,
    "stages": [{"stage": "applied", "count": 2, "p50": 1.25, "p99": 9.0}],
    "stragglers": [
        {"serviceId": "s", "service": "web", "cluster": "prod", "standing": "APPLYING",
         "since": None, "reason": "a wave waits"}
    ],
}  # fmt: skip


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """The control plane of all commands here."""
    one = FakeApi()
    for module in (fleet, search):
        monkeypatch.setattr(module, "connect", lambda _: one)
    return one


def run(*words: str) -> str:
    result = CliRunner().invoke(program.app, list(words), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_search_says_how_old_an_answer_is(api: FakeApi) -> None:
    api.answers[service_api.SEARCH] = {
        "search": {
            "totalCount": 10_000,
            "totalCountKind": "AT_LEAST",
            "edges": [{"node": {**ROW, "object": OBJECT}}],
            "pageInfo": {"hasNextPage": True, "endCursor": "1"},
        }
    }
    shown = run("search", "kind:Pod", "image:log4j<2.17", "--first", "1")
    assert api.sent(service_api.SEARCH) == [{"q": "kind:Pod image:log4j<2.17", "first": 1}]
    assert "15m ago, STALE" in shown and "showing 1 of more than 10,000" in shown


def test_find_shows_where_a_service_is(api: FakeApi) -> None:
    place = {"kind": "SERVICE", "id": "s1", "name": "web", "within": "prod"}
    api.answers[service_api.PLACES] = {"places": [place]}
    assert "prod" in run("find", "we")
    assert run("find", "we", "-o", "name") == "s1\n"


def test_a_commit_report_lists_waiting_services(api: FakeApi) -> None:
    api.answers[report_api.COMMIT_TRACE] = {"commitTrace": TRACE}
    shown = run("fleet", "commit", "1f2e3d4")
    assert "live in 2 of 3 services" in shown and "p50 1.2 s, p99 9.0 s" in shown
    assert "a wave waits" in shown


def test_figures_without_deployments_are_dashes(api: FakeApi) -> None:
    report: dict[str, Any] = dict.fromkeys(("leadP50", "leadP90", "restoreP50", "restoreP90"))
    total = {"begun": 0, "healthy": 0, "failed": 0, "failureRate": None}
    report_without_deployments = {
        **report,
        "since": "x",
        "until": "y",
        "deploymentsPerDay": 0.0,
        "total": total,
    }
    api.answers[report_api.DELIVERY_REPORT] = {"deliveryReport": report_without_deployments}
    assert "0.00" in run("fleet", "metrics", "7d")


def test_figures_are_divided_by_a_label(api: FakeApi) -> None:
    times: dict[str, Any] = dict.fromkeys(("leadP50", "leadP90", "restoreP50", "restoreP90"))
    total = {"begun": 4, "healthy": 3, "failed": 1, "failureRate": 0.25}
    shown = {**times, "deploymentsPerDay": 3.0, "total": total}
    groups = [{**shown, "value": "shop"}, {**shown, "value": None}]
    api.answers[report_api.DELIVERY_BY_LABEL] = {"deliveryReport": {"byLabel": groups}}
    lines = run("fleet", "metrics", "7d", "--by", "team", "-l", "tier=web").splitlines()
    assert [line.split()[0] for line in lines] == ["TEAM", "shop", "-"]
    (sent,) = api.sent(report_api.DELIVERY_BY_LABEL)
    assert (sent["label"], sent["labels"]) == ("team", "tier=web")


@pytest.mark.parametrize(("text", "ago"), [("90m", 5_400), ("6h", 21_600), ("7d", 604_800)])
def test_a_time_may_be_an_age(text: str, ago: int) -> None:
    age = SystemClock().now() - datetime.fromisoformat(time_of(text))
    assert abs(age - timedelta(seconds=ago)) < timedelta(minutes=1)


@pytest.mark.parametrize("text", ["", "yesterday", "-1d", "1w", "9999999d", "2026-13-01"])
def test_an_invalid_time_is_refused(text: str) -> None:
    with pytest.raises(Invalid, match="invalid time"):
        time_of(text)


def test_a_time_without_a_zone_is_utc() -> None:
    assert time_of("2026-01-31T12:00") == "2026-01-31T12:00:00+00:00"
