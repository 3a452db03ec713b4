"""Waiting for a service: an end as soon as a retry cannot help, and only about one commit."""

from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import Invalid
from core.spec.status import Problem
from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import generated as operations
from towline.cli.services.waiting import ServiceFailed, WantedState, wait_for_service
from towline.cli.shell.polling import WaitTimeout

OLD, NEW = "a" * 40, "b" * 40
UNREACHABLE = {"url": "https://x", "error": "no answer", "polledAt": None}
NO_CHART = "https://charts.example.org has no version of chart 'ngnix' that matches '*'"


def state(status: str, sha: str | None = None, **more: Any) -> Any:
    made = {
        "id": "s1", "name": "web", "status": status, "health": status, "sha": sha, "errors": [],
        "drifted": 0, "message": None, "digest": f"of {sha}", "paused": False, "promoted": False,
        "pinnedSha": None, "follows": "main", "repository": None, "cluster": None, "freeze": None,
    }  # fmt: skip
    return made | more


def failed(source: str, message: str, reason: str = "", sha: str | None = None) -> Any:
    lasting = Problem(message, source=source, reason=reason).is_lasting
    error = {"source": source, "message": message, "reason": reason, "lasting": lasting}
    return state("FAILED", sha, errors=[error])


def history(message: str, sha: str) -> list[Any]:
    return [{"stage": "render-failed", "message": message, "sha": sha}]


def api_of(*states: Any, entries: list[Any] | None = None, rendered: str = "") -> FakeApi:
    left = list(states)

    def look(**_: object) -> Any:
        return {"serviceDeployment": left.pop(0) if len(left) > 1 else left[0]}

    edges = [{"node": entry} for entry in entries or ()]
    page = {"edges": edges, "pageInfo": {"hasNextPage": False, "endCursor": None}}
    answers: dict[Any, Any] = {operations.SERVICE: look, operations.LEDGER: {"ledger": page}}
    if rendered:
        found = {"digest": rendered, "sha": NEW, "count": 1, "objects": []}
        answers[operations.SERVICE_MANIFESTS] = {"serviceManifests": found}
    return FakeApi(answers)


def wait(api: FakeApi, status: str = "HEALTHY", sha: str | None = None) -> Any:
    wanted = WantedState(status, sha)
    return wait_for_service(api, "dev/web", wanted, 60, is_new=sha is None, every=0.0, settle=0.0)


def look_once(api: FakeApi, sha: str | None = None) -> Any:
    """With a timeout that ends the wait after its first look."""
    return wait_for_service(api, "dev/web", WantedState(sha=sha), 0, is_new=sha is None)


@pytest.mark.parametrize("reason", ["NOT_FOUND", "INVALID", "FORBIDDEN", "ACCESS_DENIED"])
def test_a_render_that_cannot_succeed_ends_the_wait(reason: str) -> None:
    api = api_of(failed("render", NO_CHART, reason))
    with pytest.raises(ServiceFailed) as caught:
        wait(api)
    assert NO_CHART in caught.value.message and "towline services why" in caught.value.message
    assert len(api.sent(operations.SERVICE)) == 1


@pytest.mark.parametrize("reason", ["UNAVAILABLE", "LIMIT", ""])
def test_a_render_that_is_retried_does_not(reason: str) -> None:
    api = api_of(failed("render", "git did not answer", reason), state("HEALTHY", NEW))
    assert wait(api)["status"] == "HEALTHY"


def polled(at: str) -> Any:
    found = failed("render", NO_CHART, "NOT_FOUND")
    return found | {"repository": {"url": "https://x", "error": None, "polledAt": at}}


def test_a_failure_that_is_there_already_may_have_been_mended() -> None:
    """A user pushes the missing branch, and waits before the next poll."""
    looks = (polled("1"), polled("1"), polled("1"), state("HEALTHY", NEW))
    api = api_of(*looks)
    found = wait_for_service(api, "dev/web", WantedState(), 60, every=0.0, settle=60)
    assert found["status"] == "HEALTHY"


@pytest.mark.parametrize(("settle", "at"), [(60.0, "2"), (0.0, "1")])
def test_it_ends_the_wait_after_the_next_poll_or_some_time(settle: float, at: str) -> None:
    api = api_of(polled("1"), polled(at))
    with pytest.raises(ServiceFailed):
        wait_for_service(api, "dev/web", WantedState(), 60, every=0.0, settle=settle)


def test_a_denied_access_leads_to_the_repository() -> None:
    repository = {"url": "https://x", "error": "refused (401)", "polledAt": None}
    message = "https://x cannot be read: refused (401)"
    seen = failed("render", message, "ACCESS_DENIED") | {"repository": repository}
    with pytest.raises(ServiceFailed) as caught:
        wait(api_of(seen))
    assert "fix it in the access to https://x (`towline repos update" in caught.value.message


def test_a_failure_of_an_unknown_commit_does_not() -> None:
    """The newest error is not in the history yet, so it may be about an older commit."""
    seen = failed("render", "bad file", "INVALID", OLD)
    with pytest.raises(WaitTimeout):
        look_once(api_of(seen, entries=history(NO_CHART, NEW), rendered="else"), sha=NEW)
    with pytest.raises(ServiceFailed):
        wait(api_of(seen, entries=history("bad file", NEW), rendered="else"), sha=NEW)


@pytest.mark.parametrize(
    ("reason", "message", "ends"),
    [
        ("Invalid", "spec.replicas: must be an integer", True),
        ("Forbidden", "exceeded quota", True),
        ("ProgressDeadlineExceeded", "no progress within 600 s", True),
        ("Forbidden", "namespace shop is being terminated", False),
        ("UnknownKind", "the cluster serves no Widget", False),
        ("CrashLoopBackOff", "exit code 1", False),
    ],
)
def test_a_failure_in_the_cluster_ends_it_by_its_reason(
    reason: str, message: str, ends: bool
) -> None:
    with pytest.raises(ServiceFailed if ends else WaitTimeout):
        look_once(api_of(failed("sync", message, reason, NEW)))


def test_the_failure_of_another_commit_does_not() -> None:
    seen = failed("sync", "bad field", "Invalid", OLD)
    assert wait(api_of(seen, seen, state("HEALTHY", NEW)), sha=NEW[:8])["sha"] == NEW
    entries = history("bad file", OLD)
    rendered = failed("render", "bad file", "INVALID")
    looks = (rendered, rendered, state("HEALTHY", NEW))
    assert wait(api_of(*looks, entries=entries), sha=NEW)["sha"] == NEW


def heads(*shas: str) -> Any:
    commits = [{"ref": f"branch-{sha[0]}", "sha": sha} for sha in shas]
    repository = {"url": "https://x", "error": None, "polledAt": "1", "commits": commits}
    return {"serviceDeployment": {"repository": repository}}


def failing_again(*shas: str, error: str) -> FakeApi:
    """A service that fails as at an older commit; `error` is that of the wanted one."""
    seen = failed("render", "bad file", "INVALID", OLD)
    api = api_of(seen, seen, seen, state("HEALTHY", NEW), entries=history("bad file", OLD))

    def render(**_: object) -> Any:
        raise Invalid(error)

    api.answers |= {operations.SERVICE_MANIFESTS: render, operations.REQUESTED_SYNC: heads(*shas)}
    return api


@pytest.mark.parametrize("sha", [NEW, NEW[:8]])
def test_a_newer_commit_with_the_error_of_an_older_one_ends_the_wait(sha: str) -> None:
    """The history has the first commit of an error only."""
    with pytest.raises(ServiceFailed, match="bad file"):
        wait(failing_again(OLD, NEW, error="bad file"), sha=sha)


@pytest.mark.parametrize("shas", [("c" * 40,), ()])
def test_a_newer_commit_after_it_does_not_hide_that_the_wanted_one_fails(
    shas: tuple[str, ...],
) -> None:
    """Otherwise a build waits until its timeout whenever somebody pushes meanwhile."""
    api = failing_again(*shas, error="bad file")
    with pytest.raises(ServiceFailed, match="bad file"):
        wait(api, sha=NEW)
    assert {call["ref"] for call in api.sent(operations.SERVICE_MANIFESTS)} == {NEW}


@pytest.mark.parametrize(
    ("shas", "error"),
    [((OLD, NEW), "another error"), ((OLD,), "no commit"), ((), "no commit")],
)
def test_an_older_failure_does_not_end_it_before_the_commit_is_seen_to_fail(
    shas: tuple[str, ...], error: str
) -> None:
    api = failing_again(*shas, error=error)
    assert wait(api, sha=NEW)["sha"] == NEW
    assert len(api.sent(operations.REQUESTED_SYNC)) == 1


def test_a_commit_without_a_change_of_the_service_is_there(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """It never becomes the commit of the service."""
    same = state("SYNCED", OLD), state("HEALTHY", OLD)
    assert wait(api_of(*same, rendered=f"of {OLD}"), sha=NEW)["sha"] == OLD
    assert f"{NEW[:10]} changes nothing of ?/web" in capsys.readouterr().err


def test_a_failure_can_be_what_is_waited_for() -> None:
    api = api_of(failed("render", NO_CHART, "NOT_FOUND"))
    assert wait(api, "FAILED")["status"] == "FAILED"


def test_progress_is_only_about_the_wanted_commit(capsys: pytest.CaptureFixture[str]) -> None:
    old = state("HEALTHY", OLD)
    wait(api_of(old, old, state("STALE", NEW), state("HEALTHY", NEW), rendered="else"), sha=NEW)
    waiting, absent, rest = capsys.readouterr().err.split("\n", 2)
    assert waiting == f"waiting for dev/web to be HEALTHY at {NEW[:10]}"
    assert f"{NEW[:10]} has not arrived" in absent and "HEALTHY" not in absent
    assert rest == "  STALE\n  HEALTHY\n"


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"paused": True}, "the service is paused"),
        (
            {"freeze": {"by": "ann", "since": None, "reason": None, "group": "eu"}},
            "ann froze the cluster group eu; commits wait until "
            "`towline cluster-groups unfreeze eu`",
        ),
        (
            {"promoted": True, "pinnedSha": OLD},
            "its pipeline has not released it; `towline services why ?/web` shows the gate",
        ),
        ({"pinnedSha": OLD}, f"a rollback keeps the service at {OLD[:10]}"),
        ({"repository": UNREACHABLE}, "https://x: no answer"),
        ({}, f"the newest commit of main seen for it is {OLD[:10]}"),
    ],
)
def test_a_commit_that_does_not_arrive_has_a_reason(more: Any, reason: str) -> None:
    with pytest.raises(WaitTimeout) as caught:
        look_once(api_of(state("HEALTHY", OLD, **more)), sha=NEW)
    assert caught.value.message.endswith(f"{NEW[:10]} has not arrived: {reason}")


def test_a_timeout_needs_something_to_wait_for() -> None:
    words = "services create web --cluster dev --namespace shop --repo x --folder y --timeout 9s"
    result = CliRunner().invoke(app, words.split())
    assert "--timeout needs --wait" in str(result.exception)


def test_a_status_that_no_service_has_is_refused() -> None:
    result = CliRunner().invoke(app, ["services", "wait", "dev/web", "--for", "helthy"])
    assert "'HELTHY' is not a status; use HEALTHY, PINNED, STALE" in str(result.exception)
