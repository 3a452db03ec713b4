"""Deletion of a cluster: what happens now, and how to follow it."""

from datetime import timedelta
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.runtime.now import utc_now
from tests.fakes.api import FakeApi
from towline.cli.clusters import clusters
from towline.cli.clusters import generated as operations
from towline.cli.program import app
from towline.cli.shell.polling import WaitTimeout


def cluster(*, silent: bool = False) -> Any:
    seen = utc_now() - timedelta(hours=3 if silent else 0)
    return {
        "id": "c", "handle": "dev", "name": "dev", "tags": [], "deletedAt": seen.isoformat(),
        "pingedAt": seen.isoformat(), "agentAlarm": None, "currentVersion": None,
        "agentVersion": None, "nodeCount": None, "agentTokenExpiresAt": None, "protect": False,
        "freeze": None,
    }  # fmt: skip


def service(name: str, *reasons: str) -> Any:
    errors = [{"source": "deletion", "message": reason} for reason in reasons]
    return {"node": {"name": name, "errors": [{"source": "sync", "message": "old"}, *errors]}}


class Api(FakeApi):
    """An API whose cluster has these services at each look; None: it has disappeared."""

    def __init__(self, *looks: Any, silent: bool = False) -> None:
        self.looks = [(), *looks]
        row = cluster(silent=silent)
        super().__init__(
            {
                operations.CLUSTER: lambda **_: {"cluster": row if self.next() else None},
                operations.CLUSTER_SERVICES: lambda **_: {"serviceDeployments": self.services()},
                operations.DELETE_CLUSTER: {"deleteCluster": row},
            }
        )
        self.now: Any = ()

    def next(self) -> bool:
        self.now = self.looks.pop(0) if len(self.looks) > 1 else self.looks[0]
        return self.now is not None

    def services(self) -> Any:
        page = {"hasNextPage": False, "endCursor": None}
        return {"edges": list(self.now), "pageInfo": page}


def delete(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *words: str) -> Result:
    monkeypatch.setattr(clusters, "connect", lambda _: api)
    return CliRunner().invoke(app, ["clusters", "delete", "dev", "--yes", *words])


def test_a_deletion_that_has_begun_says_who_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    said = delete(monkeypatch, Api((service("web"),))).stderr
    assert "dev is being deleted: its agent removes 1 service; follow it with" in said


def test_a_silent_agent_is_named_with_the_way_out(monkeypatch: pytest.MonkeyPatch) -> None:
    said = delete(monkeypatch, Api((service("web"),), silent=True)).stderr
    assert "the agent of dev was last seen 3h ago, and removes 1 service when it connects" in said
    assert "`towline clusters detach dev` does not wait for it" in said


def test_a_cluster_without_services_is_gone_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert delete(monkeypatch, Api(None)).stderr == "deleted dev\n"


def test_waiting_shows_each_change_until_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    web, db = service("web"), service("db", "a user must confirm")
    result = delete(monkeypatch, Api((web, db), (db,), (), None), "--wait")
    assert result.exit_code == 0
    assert result.stderr.splitlines() == [
        "dev is being deleted: its agent removes 2 services; db: a user must confirm",
        "dev is being deleted: its agent removes 1 service; db: a user must confirm",
        "dev is being deleted: its agent removes 0 services",
        "  deleted",
        "deleted dev",
    ]


@pytest.mark.parametrize(
    ("silent", "reason"),
    [(False, "its agent removes 1 service"), (True, "the agent of dev was last seen 3h ago")],
)
def test_a_timeout_says_what_is_left(
    monkeypatch: pytest.MonkeyPatch, silent: bool, reason: str
) -> None:
    api = Api((service("web"),), silent=silent)
    result = delete(monkeypatch, api, "--wait", "--timeout", "0s")
    assert isinstance(result.exception, WaitTimeout) and reason in result.exception.message


def test_a_timeout_needs_a_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    api = Api(())
    assert "--timeout needs --wait" in str(delete(monkeypatch, api, "--timeout", "9s").exception)
    assert api.sent(operations.DELETE_CLUSTER) == []
