"""The lines of `towline services why`: holds, errors, stages of the commit, and the agent."""

from datetime import timedelta
from typing import Any

import pytest

from tests.fakes.api import FakeApi
from tests.fakes.clock import START
from towline.cli.pipelines.generated import PIPELINES
from towline.cli.services import generated as service_api
from towline.cli.services.explain import explain
from towline.cli.services.reasons import status_text
from towline.cli.shell import output
from towline.cli.shell.output import age, age_of

SHA, OTHER = "a" * 40, "b" * 40
SERVICE: dict[str, Any] = {
    "id": "s1",
    "name": "web",
    "status": "HEALTHY",
    "promoted": False,
    "paused": False,
    "pinnedSha": None,
    "commitsBehind": None,
    "drifted": 0,
    "sha": SHA,
    "deletedAt": None,
    "errors": [],
    "message": None,
    "freeze": None,
    "cluster": None,
    "repository": None,
    "helm": None,
    "revision": None,
    "components": [],
}
REPOSITORY = {"url": "https://git.example.org/shop.git", "error": None, "polledAt": None}
HELD = ("paused", "pinned", "drift", "deleted")


@pytest.fixture(autouse=True)
def time_that_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "utc_now", lambda: START)


def ago(**amount: float) -> str:
    return (START - timedelta(**amount)).isoformat()


def event(id: int, stage: str, message: str = "", sha: str | None = SHA) -> dict[str, Any]:
    return {"id": str(id), "stage": stage, "sha": sha, "at": ago(hours=3), "message": message}


def why(*events: dict[str, Any], **fields: Any) -> list[str]:
    """The lines about a service; `events` are its history, newest first."""
    edges = [{"node": node} for node in events]
    page = {"edges": edges, "pageInfo": {"hasNextPage": False, "endCursor": None}}
    api = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": {**SERVICE, **fields}},
            service_api.LEDGER: {"ledger": page},
        }
    )
    lines = list(explain(api, "dev/web"))
    assert api.sent(service_api.LEDGER) == [{"serviceId": "s1", "first": 100}]
    return lines


def titled(title: str, lines: list[str]) -> list[str]:
    """The lines with a title, each with its mark and its text."""
    words = [line.split(maxsplit=2) for line in lines]
    return [f"{mark} {text}" for mark, named, text in words if named == title]


def test_a_service_without_a_commit_and_a_repository_says_so() -> None:
    assert why() == [
        "desired  none yet",
        "✗ source         the service has no repository",
        "… agent          of ? last seen never",
    ]


def test_the_desired_commit_comes_first() -> None:
    revision = {"sha": SHA, "subject": "Fix it", "author": "Ada", "committedAt": ago(days=3)}
    assert why(revision=revision)[0] == "desired  aaaaaaaaaa  Fix it — Ada, 3d ago"


@pytest.mark.parametrize(
    ("fields", "title", "text"),
    [
        ({"paused": True}, "paused", "… no changes until `services update --resume`"),
        (
            {"pinnedSha": OTHER, "commitsBehind": 2},
            "pinned",
            "… to bbbbbbbbbb by a rollback, 2 commits behind; `services unpin` ends it",
        ),
        (
            {"pinnedSha": OTHER},
            "pinned",
            "… to bbbbbbbbbb by a rollback; `services unpin` ends it",
        ),
        (
            {"drifted": 1},
            "drift",
            "… 1 object differs from what was applied; `services history` says who",
        ),
        ({"deletedAt": ago(minutes=5)}, "deleted", "… 5m ago; removing its objects"),
    ],
)
def test_each_hold_has_its_line(fields: dict[str, Any], title: str, text: str) -> None:
    lines = why(**fields)
    assert titled(title, lines) == [text]
    assert not any(titled(other, lines) for other in HELD if other != title)


def test_a_commit_of_a_pipeline_is_not_pinned_by_a_rollback() -> None:
    page = {"edges": [], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    answers: dict[Any, Any] = {
        service_api.SERVICE: {
            "serviceDeployment": {**SERVICE, "pinnedSha": OTHER, "promoted": True}
        },
        service_api.LEDGER: {"ledger": page},
        PIPELINES: {"pipelines": page},
    }
    assert titled("pinned", list(explain(FakeApi(answers), "dev/web"))) == []


@pytest.mark.parametrize(
    ("fields", "line"),
    [
        ({"polledAt": ago(hours=2)}, "✓ git            {url} polled 2h ago"),
        ({}, "… git            {url} not polled yet"),
        ({"error": "refused"}, "✗ git            {url}: refused"),
    ],
)
def test_a_repository_has_its_state(fields: dict[str, Any], line: str) -> None:
    lines = why(repository={**REPOSITORY, **fields})
    assert line.format(url=REPOSITORY["url"]) in lines


def test_errors_say_whether_a_retry_can_help() -> None:
    errors = [
        {"source": "render", "message": "no such value", "lasting": True},
        {"source": "apply", "message": "timed out", "lasting": False},
    ]
    lines = why(errors=errors)
    assert titled("render", lines) == ["✗ no such value; a retry cannot help"]
    assert titled("apply", lines) == ["✗ timed out"]


def test_the_newest_event_of_each_stage_is_shown_oldest_first() -> None:
    """Those of another commit, and failures that have ended, are not."""
    events = [
        event(12, "healthy"),
        event(11, "rendered", "again"),
        event(10, "failed", "it had failed"),
        event(9, "rendered", "first"),
        event(8, "fetched", sha=None),
        event(7, "applied", sha=OTHER),
    ]
    lines = why(*events)
    assert lines[2:-1] == [
        "✓ fetched        3h ago",
        "✓ rendered       3h ago  again",
        "✓ healthy        3h ago",
    ]


def test_a_failure_that_lasts_is_marked_and_the_status_follows() -> None:
    lines = why(event(1, "failed", "0 of 1 replicas"), status="FAILED")
    assert titled("failed", lines) == ["✗ 3h ago  0 of 1 replicas"]
    assert titled("status", lines) == ["… FAILED"]


@pytest.mark.parametrize(("seconds", "line"), [(119, "✓ {} 119s ago"), (120, "… {} 2m ago")])
def test_an_agent_is_silent_after_two_minutes(seconds: int, line: str) -> None:
    cluster = {"id": "c1", "handle": "dev", "pingedAt": ago(seconds=seconds)}
    assert why(cluster=cluster)[-1] == line.format("agent          of dev last seen")


@pytest.mark.parametrize(
    ("status", "behind", "text"),
    [
        ("PINNED", 3, "PINNED (3 behind)"),
        ("PINNED", None, "PINNED"),
        ("HEALTHY", 3, "HEALTHY"),
    ],
)
def test_a_pinned_service_shows_how_far_it_is_behind(
    status: str, behind: int | None, text: str
) -> None:
    row: Any = {"status": status, "commitsBehind": behind}
    assert status_text(row) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-7, "0s ago"),
        (0, "0s ago"),
        (119, "119s ago"),
        (120, "2m ago"),
        (7_199, "119m ago"),
        (7_200, "2h ago"),
        (172_799, "47h ago"),
        (172_800, "2d ago"),
    ],
)
def test_an_age_has_its_largest_unit_from_two_on(seconds: float, text: str) -> None:
    assert age_of(seconds) == text


def test_a_future_time_is_named_as_one_unless_clocks_may_differ() -> None:
    assert age(ago(hours=-3)) == "in 3h"
    assert age(ago(seconds=-6)) == "in 6s"
    assert age(ago(seconds=-5)) == "0s ago"
