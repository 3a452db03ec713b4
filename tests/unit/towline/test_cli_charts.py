"""Manifests of places of charts, and of services that take their chart from one."""

from pathlib import Path

import pytest

from core.errors import Conflict, Invalid
from tests.fakes.api import FakeApi
from towline.cli.apply.manifests import read_manifests
from towline.cli.apply.plan import ManifestPlanner
from towline.cli.repositories import generated as repository_api
from towline.cli.services import generated as service_api

URL = "https://charts.example.org"
PLACE = f"apiVersion: towline/v1\nkind: HelmRepository\nurl: {URL}\nusername: bot\n"
SERVICE = (
    "apiVersion: towline/v1\nkind: Service\ncluster: dev\nname: web\nnamespace: x\n"
    f"helm: {{repository: {URL}, chart: nginx, version: ^1}}\n"
)
PLACED = {repository_api.HELM_REPOSITORY: {"helmRepository": {"id": "h1", "hasCredentials": False}}}


def applied(tmp_path: Path, api: FakeApi, text: str) -> list[str]:
    path = tmp_path / "fleet.yaml"
    path.write_text(text)
    planner = ManifestPlanner(api, dry_run=False, environ={"P": "secret"})
    return [line for one in read_manifests(path) for line in planner.apply(one)]


def test_a_place_is_made_with_its_credentials_and_changed_when_it_gets_some(tmp_path: Path) -> None:
    text = PLACE + "password: {env: P}\n"
    api = FakeApi({repository_api.CREATE_HELM_REPOSITORY: {"createHelmRepository": {"id": "h1"}}})
    assert applied(tmp_path, api, text) == [f"+ HelmRepository {URL} created"]
    (sent,) = api.sent(repository_api.CREATE_HELM_REPOSITORY)
    assert sent["attributes"] == {"url": URL, "username": "bot", "password": "secret"}
    updated = {repository_api.UPDATE_HELM_REPOSITORY: {"updateHelmRepository": {"id": "h1"}}}
    lines = applied(tmp_path, FakeApi(PLACED | updated), text)
    assert lines == [f"~ HelmRepository {URL} changed", "  hasCredentials: False → True"]
    assert applied(tmp_path, FakeApi(PLACED), PLACE) == [f"= HelmRepository {URL} unchanged"]


def test_a_service_of_a_chart_needs_no_repository_and_names_the_place_by_url(
    tmp_path: Path,
) -> None:
    made = {service_api.CREATE_SERVICE: {"createServiceDeployment": {"id": "s1"}}}
    api = FakeApi(PLACED | made)
    assert applied(tmp_path, api, SERVICE) == ["+ Service dev/web created"]
    (sent,) = api.sent(service_api.CREATE_SERVICE)
    assert sent["attributes"]["helm"] == {"chart": "nginx", "version": "^1", "repositoryId": "h1"}
    assert "repositoryId" not in sent["attributes"]


def test_applying_it_again_changes_nothing_and_another_version_does(tmp_path: Path) -> None:
    helm = {"chart": "nginx", "version": "^1", "url": None}
    service = {"id": "s1", "namespace": "x", "helm": helm, "configuration": []}
    service |= {"cluster": {"handle": "dev"}, "repository": {"id": "h1", "url": URL}, "name": "web"}
    known = PLACED | {service_api.SERVICE: {"serviceDeployment": service}}
    assert applied(tmp_path, FakeApi(known), SERVICE) == ["= Service dev/web unchanged"]
    api = FakeApi(known | {service_api.UPDATE_SERVICE: {"updateServiceDeployment": {"id": "s1"}}})
    lines = applied(tmp_path, api, SERVICE.replace("^1", "^2"))
    assert lines == ["~ Service dev/web changed", "  helm.version: ^1 → ^2"]
    (sent,) = api.sent(service_api.UPDATE_SERVICE)
    assert sent["attributes"]["helm"]["repositoryId"] == "h1"
    service["repository"] = {"id": "h0", "url": "https://old.example.org"}
    with pytest.raises(Conflict, match="repository of a service cannot be changed"):
        applied(tmp_path, FakeApi(known), SERVICE)


def test_a_service_from_nowhere_is_refused(tmp_path: Path) -> None:
    text = SERVICE.replace(f"repository: {URL}, ", "")
    with pytest.raises(Invalid, match="is required unless helm.url names a chart"):
        applied(tmp_path, FakeApi(), text)
