"""The commands that global services, service sets and managed namespaces share."""

from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from core.errors import Invalid
from tests.fakes.api import FakeApi
from towline.cli.generators import generated as operations
from towline.cli.generators import generators
from towline.cli.program import app
from towline.cli.shell import confirmation, resource_commands

STATE = {"waiting": 0, "problem": None, "evaluatedAt": None}
DEFINITION = {"id": "d1", "name": "all", "state": STATE, "onDelete": "DELETE"}
SERVICES = [
    {"id": "s1", "name": "web", "namespace": "a", "status": "HEALTHY", "cluster": {"handle": "eu"}},
    {"id": "s2", "name": "web", "namespace": "a", "status": "STALE", "cluster": None},
]
KINDS: list[tuple[str, tuple[Any, ...]]] = [
    (
        "globals",
        (
            operations.GLOBAL_SERVICES,
            operations.GLOBAL_SERVICE,
            operations.GLOBAL_SERVICE_SERVICES,
            operations.SYNC_GLOBAL_SERVICE,
            operations.DELETE_GLOBAL_SERVICE,
        ),
    ),
    (
        "sets",
        (
            operations.SERVICE_SETS,
            operations.SERVICE_SET,
            operations.SERVICE_SET_SERVICES,
            operations.SYNC_SERVICE_SET,
            operations.DELETE_SERVICE_SET,
        ),
    ),
    (
        "namespaces",
        (
            operations.NAMESPACES,
            operations.NAMESPACE,
            operations.NAMESPACE_SERVICES,
            operations.SYNC_NAMESPACE,
            operations.DELETE_NAMESPACE,
        ),
    ),
]


class Stand:
    """The commands of a kind, over an API with one definition."""

    def __init__(self, kind: str, documents: tuple[Any, ...]) -> None:
        self.kind = kind
        self.listing, self.finding, self.services, self.syncing, self.deleting = documents
        page = {
            "edges": [{"node": DEFINITION}],
            "pageInfo": {"hasNextPage": False, "endCursor": None},
        }
        one = {"definition": DEFINITION}
        self.api = FakeApi(
            {
                self.listing: {"definitions": page},
                **dict.fromkeys((self.finding, self.syncing, self.deleting), one),
                self.services: {"services": SERVICES},
            }
        )

    def run(self, *words: str, typed: str = "") -> Result:
        return CliRunner().invoke(app, [self.kind, *words], input=typed)


@pytest.fixture(params=KINDS, ids=lambda kind: kind[0])
def stand(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Stand:
    made = Stand(*request.param)
    for module in (generators, resource_commands):
        monkeypatch.setattr(module, "connect", lambda _: made.api)
    return made


def test_a_list_is_filtered_by_text_and_labels(stand: Stand) -> None:
    assert stand.run("list", "-q", "al", "-l", "team=shop", "-o", "name").stdout == "all\n"
    (sent,) = stand.api.sent(stand.listing)
    assert (sent["q"], sent["labels"]) == ("al", "team=shop")


def test_the_services_of_a_definition_are_listed(stand: Stand) -> None:
    table = stand.run("services", "all").stdout.splitlines()
    assert [line.split() for line in table] == [
        ["CLUSTER", "NAME", "NAMESPACE", "STATUS"],
        ["eu", "web", "a", "HEALTHY"],
        ["web", "a", "STALE"],
    ]
    assert stand.api.sent(stand.finding) == [{"name": "all"}]
    assert stand.api.sent(stand.services) == [{"id": "d1"}]


@pytest.mark.parametrize(("flags", "confirm"), [((), 0), (("--confirm", "12"), 12)])
def test_a_sync_confirms_deletions(stand: Stand, flags: tuple[str, ...], confirm: int) -> None:
    assert stand.run("sync", "all", *flags, "-o", "name").stdout == "all\n"
    assert stand.api.sent(stand.syncing) == [{"id": "d1", "confirm": confirm}]


@pytest.mark.parametrize(
    ("policy", "objects"), [("DELETE", "and its objects"), ("DETACH", "but not its objects")]
)
def test_a_deletion_shows_the_services_that_go_along(
    stand: Stand, monkeypatch: pytest.MonkeyPatch, policy: str, objects: str
) -> None:
    terminal = SimpleNamespace(stdin=SimpleNamespace(isatty=lambda: True))
    monkeypatch.setattr(confirmation, "sys", terminal)
    stand.api.answers[stand.finding] = {"definition": {**DEFINITION, "onDelete": policy}}
    asked = stand.run("delete", "all", typed="n\n")
    assert asked.exit_code == 1 and stand.api.sent(stand.deleting) == []
    assert asked.stderr.splitlines()[:2] == [
        f"also deletes service eu/web {objects}",
        f"also deletes service ?/web {objects}",
    ]
    assert stand.run("delete", "all", typed="y\n").exit_code == 0
    assert stand.api.sent(stand.deleting) == [{"id": "d1"}]


def test_a_deletion_without_a_terminal_needs_a_flag(stand: Stand) -> None:
    refused = stand.run("delete", "all").exception
    assert isinstance(refused, Invalid) and "use --yes" in refused.message
    assert stand.run("delete", "all", "--yes", "-o", "name").stdout == "all\n"
    assert stand.api.sent(stand.deleting) == [{"id": "d1"}]
