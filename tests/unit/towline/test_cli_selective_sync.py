"""`towline services sync --resource`."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.errors import Invalid
from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import changes, selective_sync
from towline.cli.services import generated as operations
from towline.cli.services.object_names import find_object

WEB: Any = {"kind": "Deployment", "group": "apps", "namespace": "shop", "name": "web"}
OLD: Any = {"kind": "Deployment", "group": "old", "namespace": "shop", "name": "api"}
NEW: Any = {**OLD, "group": "apps"}
SERVICE: Any = {
    **{"id": "s", "name": "shop", "cluster": {"handle": "dev", "pingedAt": None}},
    "components": [WEB, OLD, NEW],
}


def entry(id: str, result: str = "succeeded") -> Any:
    detail = {"result": result}
    return {"id": id, "at": None, "stage": "objects-synced", "message": "so", "detail": detail}


class Agent:
    """An agent that answers a sync with one entry of the ledger; None: never."""

    def __init__(self, result: str | None) -> None:
        self.entries = [entry("1"), {**entry("0"), "stage": "healthy"}]
        self._result = result

    def sync(self, **_: object) -> Any:
        if self._result is not None:
            self.entries.insert(0, entry("2", self._result))
        return {"syncServiceObjects": SERVICE}

    def ledger(self, **_: object) -> Any:
        edges = [{"node": found} for found in self.entries]
        return {"ledger": {"edges": edges, "pageInfo": {"hasNextPage": False}}}


def api_with(monkeypatch: pytest.MonkeyPatch, result: str | None) -> FakeApi:
    agent = Agent(result)
    made = FakeApi(
        {
            operations.SERVICE: {"serviceDeployment": SERVICE},
            operations.SYNC_SERVICE_OBJECTS: agent.sync,
            operations.LEDGER: agent.ledger,
        }
    )
    monkeypatch.setattr(changes, "connect", lambda context: made)
    monkeypatch.setattr(selective_sync, "ANSWER_WITHIN_S", 0.0)
    return made


def sync(*words: str) -> Result:
    return CliRunner().invoke(app, ["services", "sync", *words])


def test_objects_are_named_as_they_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that the cluster does not have yet is sent as it was named."""
    api = api_with(monkeypatch, "succeeded")
    missing = "ConfigMap/shop/new"
    result = sync("dev/shop", "--resource", "deployment/shop/web", "--resource", missing, "--prune")
    assert result.exit_code == 0 and "succeeded" in result.stdout
    (sent,) = api.sent(operations.SYNC_SERVICE_OBJECTS)
    new = {"kind": "ConfigMap", "group": "", "namespace": "shop", "name": "new"}
    assert sent == {"id": "s", "objects": [WEB, new], "prune": True}


@pytest.mark.parametrize("result", ["failed", "refused"])
def test_a_failure_ends_the_command_with_its_reason(
    monkeypatch: pytest.MonkeyPatch, result: str
) -> None:
    api_with(monkeypatch, result)
    ended = sync("dev/shop", "--resource", "Deployment/shop/web")
    assert ended.exit_code == 1 and result in ended.stdout and "so" in ended.stdout


def test_an_agent_without_an_answer_is_told_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    api_with(monkeypatch, None)
    ended = sync("dev/shop", "--resource", "Deployment/shop/web")
    assert ended.exit_code == 1 and "towline services history dev/shop" in ended.output


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (("--resource", "Deployment/web"), "exactly one service"),
        (("dev/a", "dev/b", "--resource", "Deployment/web"), "exactly one service"),
        (("-l", "a=b", "--resource", "Deployment/web"), "cannot be used with -l"),
        (("dev/shop", "--prune"), "--prune needs --resource"),
        (("dev/shop", "--resource", "web"), "'web' is not kind/name"),
        (("dev/shop", "--resource", "Deployment/api"), "several objects match"),
    ],
)
def test_words_that_mean_nothing_change_nothing(
    monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], reason: str
) -> None:
    api = api_with(monkeypatch, "succeeded")
    result = sync(*words)
    assert result.exit_code != 0 and reason in str(result.exception) + result.output
    assert api.sent(operations.SYNC_SERVICE_OBJECTS) == []


def test_a_group_tells_objects_of_one_kind_apart() -> None:
    assert find_object([OLD, NEW], "deployment.apps/shop/api") is NEW
    with pytest.raises(Invalid, match="kind.group"):
        find_object([OLD, NEW], "Deployment/shop/api")
