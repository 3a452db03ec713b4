"""`towline services confirm` selects deletions."""

import json
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.errors import Invalid, NotFound
from tests.fakes.api import FakeApi
from towline.cli.program import app
from towline.cli.services import generated as service_api
from towline.cli.services import services
from towline.cli.services.pending_deletions import select_deletions

SHOP: Any = {"kind": "Namespace", "namespace": None, "name": "shop", "group": None}
DATA: Any = {"kind": "PersistentVolumeClaim", "namespace": "shop", "name": "data", "group": None}
MINE: Any = {"kind": "Job", "namespace": "shop", "name": "data", "group": "example.org"}
BATCH: Any = {**MINE, "group": "batch"}
SERVICE = {
    "id": "s",
    "name": "web",
    "cluster": {"handle": "dev"},
    "status": "STALE",
    "sha": None,
    "errors": [],
}


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> FakeApi:
    """A service of which two deletions wait."""
    made = FakeApi(
        {
            service_api.SERVICE: {"serviceDeployment": SERVICE},
            service_api.PENDING_DELETIONS: {"serviceDeployment": {"awaiting": [SHOP, DATA]}},
            service_api.CONFIRM_DELETIONS: {"confirmDeletions": SERVICE},
        }
    )
    monkeypatch.setattr(services, "connect", lambda context: made)
    return made


def confirm(*words: str) -> Result:
    return CliRunner().invoke(app, ["services", "confirm", "dev/web", *words])


def test_all_that_waits_is_shown_and_confirmed(api: FakeApi) -> None:
    """What was shown is what is asked for: the API refuses what does not wait any more."""
    said = confirm("-o", "json")
    assert said.exit_code == 0
    assert said.stderr == "deletes Namespace/shop\ndeletes PersistentVolumeClaim/shop/data\n"
    assert json.loads(said.stdout) == SERVICE
    assert api.sent(service_api.CONFIRM_DELETIONS) == [{"id": "s", "objects": [SHOP, DATA]}]


def test_only_what_is_named_is_confirmed(api: FakeApi) -> None:
    said = confirm("persistentvolumeclaim/data")
    assert said.stderr == "deletes PersistentVolumeClaim/shop/data\n"
    assert api.sent(service_api.CONFIRM_DELETIONS) == [{"id": "s", "objects": [DATA]}]


def test_with_one_wrong_name_nothing_is_confirmed(api: FakeApi) -> None:
    refused = confirm("Namespace/shop", "Namespace/data").exception
    assert isinstance(refused, NotFound)
    assert "pending: Namespace/shop, PersistentVolumeClaim/shop/data" in refused.message
    assert api.sent(service_api.CONFIRM_DELETIONS) == []


def test_an_object_that_is_named_twice_is_confirmed_once() -> None:
    assert select_deletions([SHOP, DATA], ["Namespace/shop", "namespace/shop"]) == [SHOP]


def test_a_kind_in_two_groups_needs_its_group() -> None:
    with pytest.raises(Invalid, match=r"kind\.group"):
        select_deletions([MINE, BATCH], ["Job/data"])
    assert select_deletions([MINE, BATCH], ["job.batch/shop/data"]) == [BATCH]


def test_without_anything_that_waits_nothing_is_confirmed() -> None:
    with pytest.raises(NotFound, match="no deletion needs confirmation"):
        select_deletions([], [])
    with pytest.raises(Invalid, match="not kind/name"):
        select_deletions([SHOP], ["shop"])
