"""Commands that change all services that match."""

import json
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.errors import Conflict
from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import changes
from towline.cli.services import generated as operations
from towline.cli.shell import confirmation

WEB: Any = {
    **{"id": "w", "name": "web", "cluster": {"handle": "dev", "pingedAt": None}, "errors": []},
    **{"status": "OUT_OF_SYNC", "sha": "aaaa", "digest": "sha256:a", "message": ""},
    **{"paused": False, "revision": {"id": "r2"}},
    **{"commitsBehind": 2, "drifted": 1, "follows": "main", "pinnedSha": None},
}
DB: Any = {**WEB, "id": "d", "name": "db", "paused": True, "pinnedSha": "bbbb", "status": "PINNED"}
OLD = {"id": "r1", "sha": "0123", "digest": "sha256:0", "subject": "Begin"}


def page(*nodes: object) -> Any:
    return {"edges": [{"node": node} for node in nodes], "pageInfo": {"hasNextPage": False}}


def revisions(serviceId: str, **_: object) -> Any:
    return {"revisions": page(OLD) if serviceId == "w" else page()}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """Two services."""
    made = FakeApi(
        {
            operations.SERVICES: {"serviceDeployments": page(WEB, DB)},
            operations.SERVICE: {"serviceDeployment": WEB},
            operations.SYNC_SERVICE: {"kickService": WEB},
            operations.UPDATE_SERVICE: {"updateServiceDeployment": WEB},
            operations.ROLL_BACK_SERVICE: {"rollbackService": WEB},
            operations.REVISIONS: revisions,
        }
    )
    monkeypatch.setattr(changes, "connect", lambda context: made)
    return made


def services(*words: str, input: str | None = None) -> Result:
    return CliRunner().invoke(app, ["services", *words], input=input)


@pytest.mark.parametrize(
    ("command", "effects"),
    [
        ("sync", ["2 commits behind main; 1 object differs from what was applied", None]),
        ("pause", ["takes no changes until it resumes", None]),
        ("resume", [None, "follows Git again"]),
        ("unpin", [None, "bbbb → newest commit of main"]),
        ("rollback", ["aaaa → 0123 Begin", None]),
    ],
)
def test_a_dry_run_shows_the_effect_on_each_service(
    api: FakeApi, command: str, effects: list[str | None]
) -> None:
    said = services(command, "-l", "team=shop", "--dry-run", "-o", "json")
    rows = json.loads(said.stdout)
    assert [row["service"] for row in rows] == ["dev/web", "dev/db"]
    assert [row["effect"] if row["changes"] else None for row in rows] == effects
    assert api.sent(operations.SERVICES)[0]["labels"] == "team=shop"
    assert not any(document.startswith("mutation") for document, _ in api.asked)


def test_a_dry_run_of_a_named_service_changes_nothing(api: FakeApi) -> None:
    said = services("rollback", "dev/web", "--dry-run")
    assert "aaaa → 0123 Begin" in said.stdout
    assert api.sent(operations.ROLL_BACK_SERVICE) == []


def test_only_services_that_would_change_are_changed(api: FakeApi) -> None:
    assert services("sync", "-l", "team=shop", "--yes").exit_code == 0
    assert api.sent(operations.SYNC_SERVICE) == [{"id": "w"}]


def test_services_can_be_named(api: FakeApi) -> None:
    assert services("sync", "dev/web", "dev/db").exit_code == 0
    assert len(api.sent(operations.SYNC_SERVICE)) == 2


def test_a_change_that_fails_is_named_and_the_others_are_made(api: FakeApi) -> None:
    def update(id: str, **_: object) -> Any:
        if id == "w":
            raise Conflict("somebody else changes it")
        return {"updateServiceDeployment": DB}

    api.answers[operations.UPDATE_SERVICE] = update
    api.answers[operations.SERVICES] = {"serviceDeployments": page(WEB, {**DB, "paused": False})}
    said = services("pause", "-l", "team=shop", "--yes", "-o", "name")
    assert (said.exit_code, said.stdout) == (1, "dev/db\n")
    assert said.stderr == "dev/web: somebody else changes it\n1 of 2 services failed\n"


@pytest.mark.parametrize(("answer", "synced"), [("n", 0), ("y", 1)])
def test_a_selection_is_changed_after_a_question(
    api: FakeApi, monkeypatch: pytest.MonkeyPatch, answer: str, synced: int
) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(confirmation, "sys", terminal)
    said = services("sync", "-l", "team=shop", input=answer)
    assert "dev/web: 2 commits behind main" in said.stderr
    assert "dev/db: is paused: resume it first" in said.stderr
    assert "Sync 1 service? [y/N]" in said.stderr
    assert len(api.sent(operations.SYNC_SERVICE)) == synced


def test_without_a_terminal_a_selection_needs_an_option(api: FakeApi) -> None:
    said = services("sync", "-l", "team=shop")
    assert "without a terminal: Sync 1 service; use --yes or --dry-run" in str(said.exception)
    assert api.sent(operations.SYNC_SERVICE) == []


@pytest.mark.parametrize("words", [(), ("dev/web", "-l", "team=shop")])
def test_services_are_either_named_or_selected(api: FakeApi, words: tuple[str, ...]) -> None:
    said = services("sync", *words)
    assert "specify services by CLUSTER/NAME, or select them" in str(said.exception)
