"""Global services: which clusters they reach, and overrides that reach none."""

from typing import Any

import pytest
from typer.testing import CliRunner, Result

from tests.fakes.api import FakeApi
from towline.cli.clusters import generated as clusters
from towline.cli.generators import generated as operations
from towline.cli.generators import global_services
from towline.cli.program import app
from towline.cli.repositories import generated as repositories

STATE = {"waiting": 0, "problem": None, "evaluatedAt": None}
MONITORING = {"id": "g1", "name": "monitoring", "state": STATE, "template": None}
URL = "https://git.example.org/fleet.git"


def row(handle: str, *delta: Any) -> Any:
    cluster = {"handle": handle}
    return {"id": handle, "cluster": cluster, "overriddenBy": None, "overriddenAt": None} | {
        "delta": list(delta)
    }


def run(monkeypatch: pytest.MonkeyPatch, api: FakeApi, *words: str) -> Result:
    monkeypatch.setattr(global_services, "connect", lambda _: api)
    return CliRunner().invoke(app, ["globals", *words])


@pytest.mark.parametrize(
    ("handles", "said"),
    [
        (["eu", "us"], "deploys to 2 clusters: eu, us"),
        ([], "no cluster has the tags teir=prod yet; `towline clusters list -o wide`"),
        ([f"c{number}" for number in range(12)], "c9 and 2 more"),
    ],
)
def test_a_new_one_names_its_clusters(
    monkeypatch: pytest.MonkeyPatch, handles: list[str], said: str
) -> None:
    """An unknown URL is added together with it, as for a service."""
    api = FakeApi(
        {
            operations.CREATE_GLOBAL_SERVICE: {"createGlobalService": MONITORING},
            operations.GLOBAL_SERVICE_CLUSTERS: {"rows": [row(handle) for handle in handles]},
        }
    )
    words = ("create", "monitoring", "--repo", URL, "--folder", "x", "--tag", "teir=prod")
    result = run(monkeypatch, api, *words)
    assert result.exit_code == 0 and said in result.stderr
    assert f"added repository {URL}" in result.stderr
    (sent,) = api.sent(operations.CREATE_GLOBAL_SERVICE)
    assert sent["repositoryUrl"] == URL
    assert sent["attributes"]["template"]["repositoryId"] is None


def test_a_known_repository_is_not_added(monkeypatch: pytest.MonkeyPatch) -> None:
    known = {"gitRepository": {"id": "r1", "url": URL}}
    api = FakeApi(
        {
            repositories.REPOSITORY: known,
            operations.CREATE_GLOBAL_SERVICE: {"createGlobalService": MONITORING},
            operations.GLOBAL_SERVICE_CLUSTERS: {"rows": [row("eu")]},
        }
    )
    words = ("create", "monitoring", "--repo", URL, "--folder", "x", "--all-clusters")
    result = run(monkeypatch, api, *words)
    assert result.exit_code == 0 and "added repository" not in result.stderr
    (sent,) = api.sent(operations.CREATE_GLOBAL_SERVICE)
    assert "repositoryUrl" not in sent
    assert sent["attributes"]["template"]["repositoryId"] == "r1"


@pytest.mark.parametrize(("handle", "hint"), [("eu", False), ("dev", True)])
def test_an_override_of_a_cluster_without_the_service_says_so(
    monkeypatch: pytest.MonkeyPatch, handle: str, hint: bool
) -> None:
    delta = {"field": "configuration.a", "inherited": None, "effective": '"b"'}
    service = {"id": "s", "name": "m", "namespace": "m", "status": "HEALTHY"}
    api = FakeApi(
        {
            operations.GLOBAL_SERVICE: {"globalService": MONITORING},
            clusters.CLUSTER: {"cluster": {"id": handle, "handle": handle}},
            operations.OVERRIDE_GLOBAL_SERVICE: {"row": row(handle, delta)},
            operations.GLOBAL_SERVICE_SERVICES: {"rows": [service | {"cluster": {"handle": "eu"}}]},
        }
    )
    result = run(monkeypatch, api, "override", "monitoring", "--cluster", handle, "--set", "a=b")
    assert 'configuration.a: (none) → "b"' in result.stdout
    assert (f"monitoring has no service in {handle} now" in result.stderr) is hint
