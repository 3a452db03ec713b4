"""Fences of projects as a picture, and the provenance of a service, in a real browser."""

import re
from collections.abc import Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.integration.console.conftest import AXE, BrowserTab
from towline.demo.environment import wait_until
from towline.demo.steps import NAMESPACE, DemoSteps

pytestmark = pytest.mark.timeout(240)

_VIOLATIONS = """async () => (await axe.run(document, {resultTypes: ["violations"]})).violations
  .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" ")}`)"""
_PROJECT = """mutation ($name: String!, $fence: FenceAttributes!) {
  createProject(attributes: {name: $name, fence: $fence}) { id } }"""
_CLONE = """mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) {
  createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }"""
_NARROW = """mutation ($id: ID!, $fence: FenceAttributes!) { updateProject(id: $id, attributes:
  {name: "fenced", fence: $fence, confirmFence: true}) { id } }"""


def violations(page: Page) -> list[Any]:
    page.evaluate(AXE.read_text())
    return page.evaluate(_VIOLATIONS)


def service_of(story: DemoSteps) -> dict[str, Any]:
    """The repository and folder of the demo's service."""
    return story.stage.ask(
        """query ($id: ID!) { serviceDeployment(id: $id) {
          repository { id url } git { ref folder } } }""",
        id=story.services["dev"],
    )["serviceDeployment"]


@pytest.fixture
def fenced(story: DemoSteps) -> Iterator[str]:
    """URL of the repository of a project whose fence refuses one of its two services.

    Both only plan. They are deleted afterwards, because tests of the fleet count services.
    """
    ask, given = story.stage.ask, service_of(story)
    url, git = given["repository"]["url"], given["git"]
    fence = {
        "sources": [{"url": url}, {"url": "https://charts.example.org/*", "charts": ["redis"]}],
        "destinations": [
            {"clusters": ["dev"], "namespaces": ["fenced-*"]},
            {"clusters": ["prod"], "namespaces": ["fenced-*"]},
        ],
    }
    id = ask(_PROJECT, name="fenced", fence=fence)["createProject"]["id"]
    services = []
    for name in ("inside", "outside"):
        attributes = {
            "name": name,
            "namespace": f"fenced-{name}",
            "repositoryId": given["repository"]["id"],
            "git": {"ref": git["ref"], "folder": git["folder"]},
            "projectId": id,
            "dryRun": True,
        }
        made = ask(_CLONE, cluster=story.stage.members["dev"].id, attributes=attributes)
        services.append(made["createServiceDeployment"]["id"])
    fence["destinations"][0]["namespaces"] = ["fenced-inside"]
    ask(_NARROW, id=id, fence=fence)
    yield url
    for service in services:
        ask("mutation ($id: ID!) { deleteServiceDeployment(id: $id) { id } }", id=service)
    wait_until("the services are gone", lambda: not _fenced_rows(story), 60)
    ask("mutation ($id: ID!) { deleteProject(id: $id) { id } }", id=id)


def _fenced_rows(story: DemoSteps) -> list[str]:
    found = story.stage.ask("{ serviceDeployments(first: 100) { edges { node { name } } } }")
    names = [edge["node"]["name"] for edge in found["serviceDeployments"]["edges"]]
    return [name for name in names if name in ("inside", "outside")]


def test_a_fence_is_a_picture_and_a_list(ada: BrowserTab, fenced: str) -> None:
    """It says what each rule lets through today, what is unused, and who is refused why."""
    page = ada.go("/access?tab=fences&project=fenced")
    sources = page.get_by_role("table").nth(0)
    used = sources.get_by_role("row").filter(has_text=fenced)
    expect(used).to_contain_text("2 services")
    expect(used).to_contain_text("dev/inside, dev/outside")
    expect(sources.get_by_role("row").filter(has_text="charts redis")).to_contain_text("Unused")
    places = page.get_by_role("table").nth(1)
    expect(places.get_by_role("row").filter(has_text="dev")).to_contain_text("1 service")
    expect(places.get_by_role("row").filter(has_text="prod")).to_contain_text("Unused")
    refused = page.get_by_role("table").nth(2).get_by_role("row").filter(has_text="dev/outside")
    expect(refused).to_contain_text("no destination rule allows namespace fenced-outside")
    picture = page.locator(".graph")
    for text in ("fenced", "1 outside", "2 services", "unused"):
        expect(picture.get_by_text(text, exact=True).first).to_be_visible()
    assert violations(page) == []
    page.get_by_role("combobox", name="Project").fill("nowhere")
    expect(page.get_by_role("heading", name="Project “nowhere” not found")).to_be_visible()
    page.get_by_role("combobox", name="Project").fill("default")
    expect(page.get_by_role("heading", name="This project has no fence")).to_be_visible()
    assert violations(page) == []


def test_the_provenance_of_a_service_is_a_list_with_marks(
    ada: BrowserTab, story: DemoSteps
) -> None:
    page = ada.go(f"/services/{story.services['dev']}?tab=provenance")
    links = page.get_by_role("list", name="Provenance").get_by_role("listitem")
    url = service_of(story)["repository"]["url"]
    expect(links.filter(has_text="Source").first).to_contain_text(url)
    expect(links.filter(has_text="Signer").first).to_contain_text("Not verified")
    expect(links.filter(has_text="Signer").first).to_contain_text("not signed")
    expect(links.filter(has_text=re.compile("^. (Not verified|Verified) Bundle"))).to_contain_text(
        "signed by the key sha256:"
    )
    expect(links.filter(has_text=re.compile("Agent agent"))).to_contain_text("of dev")
    expect(links.filter(has_text=f"Deployment {NAMESPACE}/").first).to_be_visible()
    assert violations(page) == []
