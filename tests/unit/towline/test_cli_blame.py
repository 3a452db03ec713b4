"""Request and output of `towline blame`."""

from typing import Any

import pytest

from core.errors import Invalid, NotFound
from tests.fakes.api import FakeApi
from towline.cli.services import generated as service_api
from towline.cli.services.blame import moment, object_id, origin

OBJECTS = [
    {"id": "1", "kind": "Deployment", "group": "apps", "namespace": "shop", "name": "web"},
    {"id": "2", "kind": "ConfigMap", "group": "", "namespace": "shop", "name": "web"},
    {"id": "3", "kind": "ConfigMap", "group": "", "namespace": "data", "name": "web"},
    {"id": "4", "kind": "Namespace", "group": "", "namespace": None, "name": "shop"},
    {"id": "5", "kind": "Job", "group": "batch", "namespace": "shop", "name": "a"},
    {"id": "6", "kind": "Job", "group": "example.org", "namespace": "shop", "name": "a"},
]
API = FakeApi(
    {
        service_api.SERVICE: {"serviceDeployment": {"id": "s"}},
        service_api.SERVICE_OBJECTS: {"serviceDeployment": {"components": OBJECTS}},
    }
)


@pytest.mark.parametrize(
    ("thing", "id"),
    [
        ("deployment/web", "1"),
        ("ConfigMap/data/web", "3"),
        ("Namespace/shop", "4"),
        ("job.batch/shop/a", "5"),
    ],
)
def test_an_object_is_found_by_kind_and_name(thing: str, id: str) -> None:
    assert object_id(API, "dev/web", thing) == id


@pytest.mark.parametrize(
    ("thing", "error"),
    [
        ("ConfigMap/web", Invalid),
        ("Job/shop/a", Invalid),
        ("web", Invalid),
        ("Pod/web", NotFound),
        ("a/b/c/d", Invalid),
    ],
)
def test_an_ambiguous_object_name_is_refused(thing: str, error: type[Exception]) -> None:
    with pytest.raises(error):
        object_id(API, "dev/web", thing)


def test_a_field_is_of_a_commit_or_of_its_manager() -> None:
    """A commit that may not be the first with the value is marked."""
    revision = {"sha": "a" * 40, "committedAt": None}
    row: Any = {"revision": revision, "isOldestRevision": True, "manager": "towline"}
    assert origin(row) == "aaaaaaaaaa or older"
    edited: Any = {"revision": None, "manager": "kubectl-edit", "at": None}
    assert (origin(edited), moment(edited)) == ("kubectl-edit", "")
