"""`towline services sync --wait`, and what a sync says about a silent agent."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import changes
from towline.cli.services import generated as operations
from towline.cli.services.sync_waiting import wait_for_sync
from towline.cli.services.waiting import ServiceFailed
from towline.cli.shell.polling import WaitTimeout

OLD, NEW, LONG_AGO, SOON = "a" * 40, "b" * 40, "2020-01-01T00:00:00Z", "2999-01-01T00:00:00Z"
URL = "https://git.example.org/shop.git"


def service(**more: Any) -> Any:
    made = {
        "id": "w", "name": "web", "status": "HEALTHY", "health": "HEALTHY", "sha": OLD,
        "digest": "sha256:a", "errors": [], "message": "", "drifted": 0, "paused": False,
        "promoted": False, "pinnedSha": None, "commitsBehind": None, "follows": "main",
        "cluster": {"id": "c", "handle": "dev", "pingedAt": SOON}, "freeze": None,
        "repository": {"url": URL, "error": None, "polledAt": "1"},
    }  # fmt: skip
    return made | more


def sync(polled: str = "2", *, requested: bool = False, head: str = OLD, **more: Any) -> Any:
    commits = [{"ref": "main", "sha": head}]
    made = {
        "name": "web", "pinnedSha": None, "promoted": False, "git": {"ref": "main"},
        "syncRequestedAt": "2026-01-01T00:00:00Z" if requested else None,
        "cluster": {"handle": "dev", "pingedAt": SOON}, "errors": [],
        "repository": {"url": URL, "polledAt": polled, "error": None, "commits": commits},
    }  # fmt: skip
    return made | more


def in_turn(name: str, *answers: Any) -> Any:
    left = list(answers)
    return lambda **_: {name: left.pop(0) if len(left) > 1 else left[0]}


def api_of(*syncs: Any, services: tuple[Any, ...] = (service(),)) -> FakeApi:
    manifests = {"digest": "sha256:new", "sha": NEW, "count": 1, "objects": []}
    return FakeApi(
        {
            operations.REQUESTED_SYNC: in_turn("serviceDeployment", *syncs),
            operations.SERVICE: in_turn("serviceDeployment", *services),
            operations.SYNC_SERVICE: {"kickService": services[0]},
            operations.SERVICE_MANIFESTS: {"serviceManifests": manifests},
        }
    )


def wait(api: FakeApi, timeout: float = 60) -> Any:
    return wait_for_sync(api, service(), timeout, every=0.0)


def test_the_wait_ends_after_the_poll_and_the_agent(capsys: pytest.CaptureFixture[str]) -> None:
    looks = sync("1", requested=True), sync("2", requested=True), sync("2")
    assert wait(api_of(*looks))["status"] == "HEALTHY"
    said = capsys.readouterr().err
    assert f"\n  waits for a poll of {URL}; waits for the agent of dev\n" in said
    assert said.index("poll of") < said.index("  synced") < said.index("to be HEALTHY at aaaa")


def test_a_new_commit_is_waited_for() -> None:
    """The service is healthy, but not with the commit that the poll found."""
    looks = service(), service(), service(sha=NEW)
    assert wait(api_of(sync(head=NEW), services=looks))["sha"] == NEW


def failed_poll(polled: str) -> dict[str, Any]:
    return {"url": URL, "polledAt": polled, "error": "no answer", "commits": []}


def test_a_failed_poll_is_waited_for_again() -> None:
    """Otherwise the service is healthy at the commit before, and the user believes it is done."""
    looks = sync(repository=failed_poll("2")), sync("3", head=NEW)
    assert wait(api_of(*looks, services=(service(), service(sha=NEW))))["sha"] == NEW
    with pytest.raises(WaitTimeout, match="waits for a poll of .*: no answer"):
        wait(api_of(sync(repository=failed_poll("2"))), 0)


def test_a_failed_poll_ends_the_wait_for_a_service_that_cannot_be_rendered() -> None:
    message = f"{URL} cannot be read: no answer"
    error = {"source": "render", "message": message, "reason": "ACCESS_DENIED", "lasting": True}
    failed = service(status="FAILED", health="FAILED", errors=[error], repository=failed_poll("2"))
    look = sync(repository=failed_poll("2"), errors=[{"source": "render", "lasting": True}])
    before = service(status="FAILED", health="FAILED", errors=[error])
    with pytest.raises(ServiceFailed, match="cannot be read"):
        wait(api_of(look, services=(before, failed)))


@pytest.mark.parametrize("more", [{"pinnedSha": OLD}, {"promoted": True}])
def test_a_failed_poll_does_not_matter_to_a_pin_or_a_pipeline(more: dict[str, Any]) -> None:
    assert wait(api_of(sync(repository=failed_poll("2"), **more)))["sha"] == OLD


@pytest.mark.parametrize(
    "more",
    [{"pinnedSha": OLD}, {"promoted": True}, {"git": None}, {"repository": None}],
)
def test_the_commit_of_a_pin_or_a_pipeline_stays(more: dict[str, Any]) -> None:
    assert wait(api_of(sync(head=NEW, **more)))["sha"] == OLD


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (
            sync(requested=True, cluster={"handle": "dev", "pingedAt": LONG_AGO}),
            "dev/web waits for the agent of dev, which is not connected",
        ),
        (
            sync(repository={"url": URL, "polledAt": "1", "error": "no answer", "commits": []}),
            f"dev/web waits for a poll of {URL}: no answer",
        ),
    ],
)
def test_a_timeout_says_what_the_sync_waits_for(seen: Any, reason: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        wait(api_of(seen), 0)
    assert caught.value.message.endswith(reason)


def run(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *words: str) -> Result:
    monkeypatch.setattr(changes, "connect", lambda context: api)
    return CliRunner().invoke(app, ["services", "sync", *words])


@pytest.mark.parametrize(
    ("pinged", "said"),
    [
        (LONG_AGO, "the agent of dev was last seen"),
        (None, "the agent of dev has never connected; the sync starts when it connects"),
        (SOON, ""),
    ],
)
def test_a_sync_of_a_silent_agent_says_when_it_starts(
    monkeypatch: pytest.MonkeyPatch, pinged: str | None, said: str
) -> None:
    silent = service(cluster={"handle": "dev", "pingedAt": pinged})
    result = run(monkeypatch, api_of(sync(), services=(silent,)), "dev/web")
    assert result.exit_code == 0 and said in result.stderr
    assert ("the sync starts when it connects" in result.stderr) is bool(said)


def test_a_command_waits_for_all_named_services(monkeypatch: pytest.MonkeyPatch) -> None:
    """The syncs begin before the first wait."""
    api = api_of(sync())
    assert run(monkeypatch, api, "dev/web", "dev/db", "--wait").exit_code == 0
    asked = [document for document, _ in api.asked]
    first_wait = asked.index(operations.REQUESTED_SYNC)
    assert asked[:first_wait].count(operations.SYNC_SERVICE) == 2
    assert asked.count(operations.REQUESTED_SYNC) == 2


def test_a_service_that_does_not_become_healthy_fails_the_command(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen = sync(requested=True)
    result = run(monkeypatch, api_of(seen), "dev/web", "dev/db", "--wait", "--timeout", "0s")
    assert result.exit_code == 1 and "2 of 2 services failed" in result.stderr
    result = run(monkeypatch, api_of(seen), "dev/web", "--wait", "--timeout", "0s")
    assert isinstance(result.exception, WaitTimeout)


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (["--timeout", "9s"], "--timeout needs --wait"),
        (["--wait", "--resource", "Pod/x"], "--resource waits by itself"),
        (["--wait"], "dev/web is paused: run `towline services resume dev/web` first"),
    ],
)
def test_a_wait_that_cannot_end_is_refused(
    monkeypatch: pytest.MonkeyPatch, words: list[str], problem: str
) -> None:
    api = api_of(sync(), services=(service(paused=True),))
    result = run(monkeypatch, api, "dev/web", *words)
    assert problem in str(result.exception)
    assert api.sent(operations.SYNC_SERVICE) == []
