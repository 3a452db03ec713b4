"""Reasons first: the object that a service waits for, among many that are well."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import Forbidden, NotFound
from tests.fakes.api import FakeApi
from towline.cli.clusters import generated as cluster_api
from towline.cli.clusters.presence import is_silent
from towline.cli.program import app
from towline.cli.services import generated as service_api
from towline.cli.services import service_manifests, services
from towline.cli.services.explain import explain
from towline.cli.services.freezes import freeze_of
from towline.cli.services.reasons import (
    by_urgency,
    first_problem,
    problem_in_list,
    waiting_objects,
)

EVENT = "web-1: Unhealthy: Readiness probe failed: HTTP 503"
MESSAGE = f"waiting for Deployment shop/web: 0 of 1 replicas available; {EVENT}"


def component(name: str, state: str | None = "RUNNING", message: str = "") -> Any:
    return {
        "group": "apps", "kind": "Deployment", "namespace": "shop", "name": name, "state": state,
        "synced": True, "message": message, "ownerUid": None, "updatedAt": "2026-01-01T00:00:00Z",
    }  # fmt: skip


def service(*components: Any, status: str = "SYNCED", message: str | None = MESSAGE) -> Any:
    return {
        "id": "s1", "name": "web", "status": status, "promoted": False, "paused": False,
        "pinnedSha": None, "commitsBehind": None, "drifted": 0, "sha": None,
        "deletedAt": None, "errors": [], "message": message, "freeze": None,
        "cluster": None, "repository": None, "helm": None, "revision": None,
        "components": list(components),
    }  # fmt: skip


def why(found: Any) -> list[str]:
    info = {"edges": [], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    answers = {
        service_api.SERVICE: {"serviceDeployment": found},
        service_api.LEDGER: {"ledger": info},
    }
    return list(explain(FakeApi(answers), "dev/web"))


def test_one_of_131_objects_waits_and_stands_first() -> None:
    """With its reason and its newest event, right below the commit."""
    many = [component(f"d{number}") for number in range(130)]
    lines = why(service(*many, component("web", "PENDING", EVENT)))
    assert EVENT in lines[1] and "Deployment shop/web" in lines[1]
    assert "SYNCED" in lines[-2] and len(lines) < 8


def test_several_are_named_the_failed_one_first() -> None:
    """Five at most; the others are counted."""
    slow = [component(f"slow-{number}", "PENDING", "0 of 1") for number in range(8)]
    lines = why(service(*slow, component("bad", "FAILED", "crash"), component("fine")))
    objects = [line for line in lines if " object " in line]
    assert "shop/bad: crash" in objects[0] and objects[-1].endswith("and 4 more")
    assert len(objects) == 6


def test_a_healthy_service_waits_for_nothing() -> None:
    """An old message of the agent is no reason."""
    found = service(component("web"), status="HEALTHY")
    assert first_problem(found) == "" and "waits" not in "".join(why(found))


def test_a_list_tells_why_nothing_is_delivered() -> None:
    found = service(status="STALE", message=None)
    assert problem_in_list(found) == "no commit delivered yet"
    found["cluster"] = {"id": "c", "handle": "eu", "pingedAt": None}
    assert problem_in_list(found) == "the agent of eu has never connected"
    found["errors"] = [{"source": "render", "message": "bad chart"}]
    assert problem_in_list(found) == "bad chart"
    assert problem_in_list(service(status="HEALTHY")) == ""


def test_the_first_problem_is_an_error_before_a_wait() -> None:
    """In the table of `get` and `list`, and in the answer of `wait`."""
    found = service(component("web", "PENDING"))
    assert first_problem(found) == MESSAGE
    found["errors"] = [{"source": "apply", "message": "denied"}]
    assert first_problem(found) == "denied"


def test_order_of_objects() -> None:
    """Failed and unknown components come before waiting ones; descendants are not waited for."""
    states = ["RUNNING", "PAUSED", "PENDING", None, "FAILED"]
    ordered = by_urgency([component("x", state) for state in states])
    assert [found["state"] for found in ordered] == ["FAILED", None, "PENDING", "PAUSED", "RUNNING"]
    pod = component("pod", "PENDING") | {"ownerUid": "u1"}
    assert waiting_objects([pod, component("web", None)]) == [
        "Deployment shop/web: not healthy yet"
    ]


def test_a_service_is_shown_with_its_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    """The table, for people: `services get` of a service that has objects."""
    found = service(component("fine"), component("bad", "FAILED", "crash"), component("new", None))
    now = datetime.now(UTC).isoformat()  # noqa: TID251
    cluster = {"handle": "dev", "pingedAt": now}
    shown = found | {
        "git": {"ref": "main"},
        "follows": "main",
        "cluster": cluster,
        "observedAt": "2026-01-01T00:00Z",
    }
    api = FakeApi({service_api.SERVICE: {"serviceDeployment": shown}})
    monkeypatch.setattr(services, "connect", lambda context: api)
    result = CliRunner().invoke(app, ["services", "get", "dev/web"])
    assert result.exit_code == 0, result.output
    rows = [line.split() for line in result.stdout.splitlines() if line.startswith("Deployment")]
    states = [("bad", "FAILED"), ("new", "UNKNOWN"), ("fine", "RUNNING")]
    assert [(row[2], row[3]) for row in rows] == states
    assert " 0s ago" in result.stdout, "the agent's last contact, not the last change"


@pytest.mark.parametrize(
    ("objects", "text"),
    [(1, "1 object differs from what was applied"), (2, "2 objects differ from what was applied")],
)
def test_drift_is_counted_in_english(objects: int, text: str) -> None:
    found = service(status="DRIFTED") | {"drifted": objects}
    assert first_problem(found) == text and text in "".join(why(found))


def test_a_pin_is_counted_in_english() -> None:
    found = service(status="PINNED") | {"pinnedSha": "a" * 40, "commitsBehind": 1}
    assert ", 1 commit behind; `services unpin` ends it" in "".join(why(found))


@pytest.mark.parametrize(
    ("seconds", "silent"), [(5, False), (119, False), (121, True), (None, True)]
)
def test_an_agent_is_silent_after_two_minutes(seconds: int | None, silent: bool) -> None:
    now = datetime.now(UTC)  # noqa: TID251
    heard = None if seconds is None else (now - timedelta(seconds=seconds)).isoformat()
    assert is_silent(heard) is silent


@pytest.mark.parametrize(
    ("url", "helm", "kind"),
    [
        ("https://git.example.org/shop.git", None, "git"),
        ("https://git.example.org/shop.git", {"chart": None}, "git"),
        ("https://charts.example.org", {"chart": "nginx"}, "charts"),
        ("oci://registry.example.org/charts", {"chart": "nginx"}, "charts"),
        ("oci://registry.example.org/shop", None, "artifacts"),
    ],
)
def test_the_source_of_a_service_has_its_kind(url: str, helm: Any, kind: str) -> None:
    repository = {"url": url, "error": "no answer", "polledAt": None}
    found = service(status="FAILED", message=None) | {"repository": repository, "helm": helm}
    assert f"✗ {kind:<14} {url}: no answer" in why(found)


def test_a_service_without_manifests_says_why_and_what_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    found = service(status="FAILED", message=None) | {
        "digest": None,
        "cluster": {"id": "c", "handle": "dev", "pingedAt": None},
        "errors": [{"source": "render", "message": "no such folder", "reason": ""}],
    }
    api = FakeApi({service_api.SERVICE: {"serviceDeployment": found}})
    monkeypatch.setattr(service_manifests, "connect", lambda context: api)
    result = CliRunner().invoke(app, ["services", "manifests", "dev/web"])
    assert isinstance(result.exception, NotFound)
    said = result.exception.message
    assert "never rendered: no such folder" in said and "towline services why dev/web" in said


def frozen(**more: Any) -> Any:
    freeze = {"by": "ann", "since": "2026-01-01T00:00:00.12Z", "reason": "new year", "group": "eu"}
    return service() | {"freeze": freeze | more, "cluster": {"id": "c1", "handle": "dev"}}


@pytest.mark.parametrize(
    ("group", "what", "end"),
    [
        ("eu", "the cluster group eu", "`towline cluster-groups unfreeze eu`"),
        (None, "a cluster group of this cluster", "a user unfreezes the group"),
    ],
)
def test_a_freeze_is_named_with_its_end(group: str | None, what: str, end: str) -> None:
    """Also for a user who may not read cluster groups."""
    said = freeze_of(FakeApi(), frozen(group=group))
    assert said == f"ann froze {what} at 2026-01-01T00:00:00Z: new year; commits wait until {end}"
    said = freeze_of(FakeApi(), frozen(group=group, reason=None, since=None))
    assert said == f"ann froze {what}; commits wait until {end}"


@pytest.mark.parametrize("alarm", ["the agent reports: this cluster is frozen", None])
def test_a_freeze_by_its_key_is_an_alarm_of_the_agent(alarm: str | None) -> None:
    answers = {cluster_api.CLUSTER: {"cluster": {"id": "c1", "agentAlarm": alarm}}}
    found = service() | {"cluster": {"id": "c1", "handle": "dev"}}
    assert freeze_of(FakeApi(answers), found) == (alarm or "")


def test_a_user_who_may_not_read_the_cluster_is_told_no_alarm() -> None:
    assert freeze_of(FakeApi(), service()) == ""
    found = service() | {"cluster": {"id": "c1", "handle": "dev"}}
    assert freeze_of(FakeApi({cluster_api.CLUSTER: Forbidden("no")}), found) == ""


@pytest.mark.parametrize(
    ("stage", "status", "source", "message", "is_shown"),
    [
        ("render-failed", "FAILED", "render", "bad", True),
        ("render-failed", "FAILED", "render", "another", False),
        ("render-failed", "HEALTHY", None, "", False),
        ("render-failed", "FAILED", "sync", "bad", False),
        ("failed", "FAILED", "sync", "bad", True),
        ("failed", "HEALTHY", None, "", False),
        ("degraded", "PINNED", None, "", False),
    ],
)
def test_a_failure_that_has_ended_is_not_shown(
    stage: str, status: str, source: str | None, message: str, is_shown: bool
) -> None:
    entry = {"id": "1", "stage": stage, "sha": None, "at": "2026-01-01T00:00:00Z", "message": "bad"}
    found = service(status=status, message=None)
    if source is not None:
        found["errors"] = [{"source": source, "message": message, "reason": "", "lasting": False}]
    page = {"edges": [{"node": entry}], "pageInfo": {"hasNextPage": False, "endCursor": None}}
    api = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": found},
            service_api.LEDGER: {"ledger": page},
        }
    )
    assert any(stage in line for line in explain(api, "dev/web")) is is_shown
