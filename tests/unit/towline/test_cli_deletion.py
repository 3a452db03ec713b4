"""Deletion of a service: what happens now, and how to follow it."""

from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.errors import Invalid, NotFound
from core.runtime.now import utc_now
from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import generated as operations
from towline.cli.services import services
from towline.cli.services.deletion import wait_for_deletion
from towline.cli.shell.polling import WaitTimeout

WEB: Any = {"kind": "Deployment", "group": "apps", "namespace": "shop", "name": "web"}


def service(*components: Any, silent: bool = False, **more: Any) -> Any:
    seen = utc_now() - timedelta(hours=1 if silent else 0)
    made = {
        "id": "s1", "name": "web", "status": "HEALTHY", "errors": [], "message": None, "sha": None,
        "cluster": {"id": "c", "handle": "dev", "pingedAt": seen.isoformat()}, "drifted": 0,
        "components": list(components), "follows": "main", "commitsBehind": None,
        "deletedAt": None,
    }  # fmt: skip
    return made | more


class Api(FakeApi):
    """An API whose service looks like this at each look; None: it has disappeared."""

    def __init__(self, *looks: Any) -> None:
        self.looks = list(looks)
        super().__init__(
            {
                operations.SERVICE: self.look,
                operations.DELETE_SERVICE: {"deleteServiceDeployment": looks[0]},
                operations.DETACH_SERVICE: {"detachServiceDeployment": looks[0]},
            }
        )

    def look(self, **_: object) -> Any:
        return {"serviceDeployment": self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]}


def delete(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *words: str) -> Result:
    monkeypatch.setattr(services, "connect", lambda _: api)
    return CliRunner().invoke(app, ["services", "delete", "dev/web", "--yes", *words])


def test_a_deletion_that_has_begun_says_who_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said = delete(monkeypatch, Api(service(WEB), service(WEB))).stderr
    assert "dev/web is being deleted: its agent removes 1 object" in said
    assert "towline services why dev/web" in said


def test_a_silent_agent_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    said = delete(monkeypatch, Api(service(WEB, silent=True))).stderr
    assert "the agent of dev was last seen" in said and "when it connects again" in said


@pytest.mark.parametrize(
    ("words", "said"),
    [((), "deleted dev/web"), (("--detach",), "deleted dev/web; its objects stay in the cluster")],
)
def test_a_deletion_that_has_ended_says_so(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    result = delete(monkeypatch, Api(service(), None), *words)
    assert result.exit_code == 0 and result.stderr.splitlines()[-1] == said


def test_a_repeated_deletion_follows_the_first_one(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(*[service(WEB, deletedAt="2026-01-01T00:00:00Z")] * 3, None)
    result = delete(monkeypatch, api, "--wait")
    assert result.exit_code == 0 and result.stderr.splitlines()[-1] == "deleted dev/web"
    assert api.sent(operations.DELETE_SERVICE) == []


def test_a_mistyped_name_deletes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(None)
    assert isinstance(delete(monkeypatch, api).exception, NotFound)
    assert not api.sent(operations.DELETE_SERVICE)


def test_waiting_shows_each_change_until_the_end(capsys: pytest.CaptureFixture[str]) -> None:
    problem = {"source": "deletion", "message": "a user must confirm", "reason": ""}
    looks = (service(WEB), service(WEB, errors=[problem]), service(), None)
    wait_for_deletion(Api(*looks), service(WEB), 60, every=0.0)
    assert capsys.readouterr().err.splitlines() == [
        "dev/web is being deleted: its agent removes 1 object",
        "dev/web is being deleted: its agent removes 1 object; a user must confirm",
        "dev/web is being deleted: its agent removes 0 objects",
        "  deleted",
    ]


def test_waiting_ends_with_the_reason() -> None:
    with pytest.raises(WaitTimeout, match="its agent removes 1 object"):
        wait_for_deletion(Api(service(WEB)), service(WEB), 0)


def test_a_timeout_needs_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(service(WEB))
    assert isinstance(delete(monkeypatch, api, "--timeout", "9s").exception, Invalid)
    assert not api.sent(operations.DELETE_SERVICE)
