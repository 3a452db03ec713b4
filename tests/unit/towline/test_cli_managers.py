"""Warnings about fields that a configuration source or another manager sets."""

from typing import Any

import pytest
from typer.testing import CliRunner

from core.errors import NotFound
from tests.fakes.api import FakeApi
from towline.cli.manifests import generated as manifests
from towline.cli.manifests.managers import fields_of, warn_of_managers
from towline.cli.program import app
from towline.cli.services import changes, services
from towline.cli.services import generated as operations

SERVICE: Any = {
    **{"id": "w", "name": "web", "cluster": {"handle": "dev", "pingedAt": None}, "errors": []},
    **{"status": "HEALTHY", "sha": "aaaa", "digest": "sha256:a", "message": "", "drifted": 0},
    **{"paused": False, "commitsBehind": None, "pinnedSha": None, "follows": "main"},
    **{"git": {"ref": "main", "folder": "web"}, "configuration": [{"name": "a", "value": "1"}]},
}


def manager(*fields: str, source: str | None = "fleet", reverts: bool = False) -> Any:
    name = f"git source {source}" if source else "terraform"
    return {"manager": name, "fields": list(fields), "source": source, "reverts": reverts}


def api_of(*managers: Any) -> FakeApi:
    return FakeApi(
        {
            manifests.FIELD_MANAGERS: {"fieldManagers": list(managers)},
            operations.SERVICE: {"serviceDeployment": SERVICE},
            operations.UPDATE_SERVICE: {"updateServiceDeployment": SERVICE},
        }
    )


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (manager("spec.ref", reverts=True), "`towline config-sources suspend fleet` first"),
        (manager("spec.ref"), "its next commit overwrites the change"),
        (manager("spec.ref", source=None), "manager terraform set ref: its next apply may revert"),
        (manager("spec.refs", "spec.folder"), ""),
    ],
)
def test_a_warning_says_what_happens_to_the_change(
    capsys: pytest.CaptureFixture[str], found: Any, words: str
) -> None:
    warn_of_managers(api_of(found), "Service", "dev/web", ["ref"])
    said = capsys.readouterr().err
    assert words in said and said.startswith("warning: ") is bool(words)


@pytest.mark.parametrize("field", ["spec.helm", "spec.helm.values", "spec.helm.values.replicas"])
def test_a_part_of_a_field_and_the_object_around_it_count(
    capsys: pytest.CaptureFixture[str], field: str
) -> None:
    warn_of_managers(api_of(manager(field)), "Service", "dev/web", ["helm.values"])
    assert "manages helm.values" in capsys.readouterr().err


def test_a_reference_counts_by_the_name_of_its_field() -> None:
    attributes = {"appId": "1", "clusterId": "c", "url": None}
    assert fields_of(attributes) == {"appId", "app", "clusterId", "cluster"}


def test_a_done_change_does_not_fail_without_the_managers(
    capsys: pytest.CaptureFixture[str],
) -> None:
    warn_of_managers(FakeApi({manifests.FIELD_MANAGERS: NotFound()}), "Service", "a/b", ["ref"])
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("words", "field"),
    [
        (["update", "dev/web", "--ref", "v2"], "ref"),
        (["update", "dev/web", "--folder", "other"], "folder"),
        (["update", "dev/web", "--kustomize", "base"], "kustomizePath"),
        (["update", "dev/web", "--set", "a=2"], "configuration.a"),
        (["update", "dev/web", "--soak", "60"], "verification"),
        (["update", "dev/web", "--no-protect"], "protect"),
        (["pause", "dev/web"], "paused"),
    ],
)
def test_commands_warn_of_the_fields_that_they_change(
    monkeypatch: pytest.MonkeyPatch, words: list[str], field: str
) -> None:
    others = {"ref", "folder", "kustomizePath", "configuration.b", "protect", "paused"} - {field}
    managers = manager(f"spec.{field}"), manager(*(f"spec.{name}" for name in others), source="x")
    api = api_of(*managers)
    for module in (services, changes):
        monkeypatch.setattr(module, "connect", lambda context: api)
    result = CliRunner().invoke(app, ["services", *words])
    assert result.exit_code == 0, result.exception
    assert f"configuration source fleet manages {field}, " in result.stderr
    assert "configuration source x" not in result.stderr
    assert api.sent(manifests.FIELD_MANAGERS) == [{"kind": "Service", "name": "dev/web"}]
