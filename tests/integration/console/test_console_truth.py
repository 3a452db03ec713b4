"""Statements of the console compared with the control plane and the clusters."""

import re
import subprocess
import time
from collections.abc import Iterator

import pytest
from playwright.sync_api import Page, expect

from core.json_object import JsonObject
from tests.integration.console.conftest import EMAIL, BrowserTab, commit
from towline.demo.environment import wait_until
from towline.demo.sample import shop
from towline.demo.steps import NAMESPACE, DemoSteps

pytestmark = pytest.mark.timeout(240)


def test_a_filter_without_matches_claims_no_health(ada: BrowserTab, story: DemoSteps) -> None:
    page = ada.go("/?q=nothing-is-called-so")
    attention = page.get_by_role("region", name=re.compile("Needs attention"))
    expect(attention).to_contain_text("No services shown")
    expect(attention).not_to_contain_text("healthy")


def test_users_without_a_role_see_why_they_see_nothing(
    stranger: BrowserTab, story: DemoSteps
) -> None:
    ask = story.stage.ask
    account = ask('mutation { createServiceAccount(attributes: {name: "nobody"}) { id } }')
    token = ask(
        "mutation ($id: ID!) { createServiceAccountToken("
        'id: $id, attributes: {name: "browser"}) { token } }',
        id=account["createServiceAccount"]["id"],
    )["createServiceAccountToken"]["token"]
    stranger.page.set_extra_http_headers({"Authorization": f"Bearer {token}"})
    for path in ("/", "/services", "/clusters"):
        page = stranger.go(path)
        expect(page.get_by_role("heading", name="You have no role")).to_be_visible()
        expect(page.get_by_text("All shown services healthy")).to_have_count(0)


def test_last_seen_follows_the_agent(ada: BrowserTab, story: DemoSteps) -> None:
    """Every page asks again, although the control plane sends no event for an agent's message."""
    service = story.services["dev"]
    found = story.stage.ask(
        "query ($id: ID!) { serviceDeployment(id: $id) { components { id } } }", id=service
    )
    component = found["serviceDeployment"]["components"][0]["id"]
    paths = (
        "/clusters",
        "/clusters/dev",
        "/services",
        f"/services/{service}",
        f"/objects/{component}",
        "/search?q=kind:Deployment",
    )
    shown: dict[Page, str] = {}
    for path in paths:
        page = ada.page.context.new_page()
        page.clock.install()
        page.goto(ada.base + path)
        shown[page] = _last_seen(page)
    deadline = time.monotonic() + 60
    while shown and time.monotonic() < deadline:
        for page in list(shown):
            # Only the page's clock moves; the times that it shows come from the server.
            page.clock.run_for(5_000)
            if _last_seen(page) > shown[page]:
                del shown[page]
                page.close()
    assert [page.url for page in shown] == []


def _last_seen(page: Page) -> str:
    """The time behind the age of the newest message of an agent on a page."""
    ages = page.locator("tbody tr td time, .service-head time")
    ages.first.wait_for()
    return max(age.get_attribute("datetime") or "" for age in ages.all())


def test_a_group_in_the_palette_opens_its_role_bindings(ada: BrowserTab, story: DemoSteps) -> None:
    ask = story.stage.ask
    ask('mutation { createGroup(attributes: {name: "pager"}) { id } }')
    ask(
        "mutation { createRoleBinding(attributes: "
        '{role: "viewer", scope: "installation", group: "pager"}) { id } }'
    )
    page = ada.go("/")
    page.get_by_role("heading", name="Fleet").wait_for()
    page.keyboard.press("Control+k")
    page.keyboard.type("pager")
    page.get_by_role("option").filter(has_text=re.compile("^group")).click()
    rows = page.get_by_role("region", name="Role bindings").get_by_role("row")
    expect(rows).to_have_count(2)
    expect(rows.last).to_contain_text("group pager")


_UPDATE = """mutation ($id: ID!, $a: ServiceUpdateAttributes!) {
  updateServiceDeployment(id: $id, attributes: $a) { id } }"""
_WEB = "query ($id: ID!) { serviceDeployment(id: $id) { components { id kind synced } } }"


@pytest.fixture
def reported(story: DemoSteps) -> Iterator[str]:
    """The Deployment of dev, while its agent reports drift and does not revert it."""
    service = story.services["dev"]
    story.stage.ask(_UPDATE, id=service, a={"syncConfig": {"driftPolicy": "REPORT"}})
    story.wait_healthy("dev")
    yield _deployment(story)["id"]
    story.stage.ask(_UPDATE, id=service, a={"syncConfig": {"driftPolicy": "HEAL"}})
    story.wait_replicas("dev", 1)
    story.wait_healthy("dev")


def test_drift_shows_the_difference_and_who_made_it(
    ada: BrowserTab, story: DemoSteps, reported: str
) -> None:
    """A scale by kubectl through the proxy: both replica counts, and the user of kubectl."""
    program = story.stage.kubectl_program or "kubectl"
    command = [program, "--kubeconfig", str(story.stage.member_kubeconfig())]
    command += ["--context", "towline-dev", "-n", NAMESPACE, "scale", "deployment/web"]
    subprocess.run([*command, "--replicas=3"], check=True, capture_output=True)
    wait_until("drift is reported", lambda: not _deployment(story)["synced"], 60)
    page = ada.go(f"/objects/{reported}?tab=drift")
    fields = page.get_by_role("region", name="Fields that differ from Git").get_by_role("row")
    replicas = fields.filter(has_text="/spec/replicas").get_by_role("cell")
    expect(replicas.nth(1)).to_have_text("1")
    expect(replicas.nth(2)).to_have_text("3")
    page.get_by_role("button", name="Inline").click()
    difference = page.locator(".code")
    expect(difference).to_contain_text("replicas: 1")
    expect(difference).to_contain_text("replicas: 3")
    foreign = page.get_by_role("region", name="Changed outside Git").get_by_role("row")
    expect(foreign.filter(has_text="/spec/replicas")).to_contain_text(EMAIL)
    _shows_state(ada, story.services["dev"], "DRIFTED", "Drifted", re.compile("^1 Drifted$"))


def test_a_rolled_back_service_shows_how_far_it_is_behind(
    ada: BrowserTab, story: DemoSteps
) -> None:
    service = story.services["dev"]
    for version in ("7.1", "7.2", "7.3"):
        commit(story, shop(version), f"Open {version}")
        sha = story.stage.repository.resolve("refs/heads/main")
        wait_until(f"dev has {version}", lambda sha=sha: story.service("dev")["sha"] == sha, 60)
    revisions = story.stage.ask(_REVISIONS, id=service)["revisions"]["edges"]
    second = next(edge["node"]["id"] for edge in revisions if "7.2" in edge["node"]["subject"])
    story.stage.ask(_ROLLBACK, id=service, revision=second)
    try:
        page = ada.go(f"/services/{service}")
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("Pinned (1 behind)")
        commit(story, shop("7.4"), "Open 7.4")
        expect(heading).to_contain_text("Pinned (2 behind)")
        _shows_state(ada, service, "PINNED", "Pinned (2 behind)", re.compile("^1 Pinned$"))
    finally:
        story.stage.ask("mutation ($id: ID!) { releaseService(id: $id) { id } }", id=service)
        story.wait_healthy("dev")


_REVISIONS = """query ($id: ID!) { revisions(serviceId: $id, first: 20) {
  edges { node { id subject } } } }"""
_ROLLBACK = """mutation ($id: ID!, $revision: ID!) {
  rollbackService(id: $id, revisionId: $revision) { id } }"""


def _shows_state(
    ada: BrowserTab, service: str, state: str, label: str, count: re.Pattern[str]
) -> None:
    """The page of the service, the filtered list and the fleet's counts agree."""
    page = ada.go(f"/services/{service}")
    expect(page.get_by_role("heading", level=1)).to_contain_text(label)
    ada.go(f"/services?status={state}")
    rows = page.get_by_role("region", name="Services").get_by_role("row").filter(has_text="shop")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text(label)
    ada.go("/")
    counts = page.get_by_role("list", name="Services by state")
    expect(counts.get_by_role("button", name=count)).to_be_visible()


def test_a_dry_run_is_not_called_applied(ada: BrowserTab, story: DemoSteps) -> None:
    service = story.services["dev"]
    story.stage.ask(_UPDATE, id=service, a={"dryRun": True})
    try:
        page = ada.go(f"/services/{service}")
        heading = page.get_by_role("heading", level=1)
        expect(heading).to_contain_text("Dry run")
        expect(heading).not_to_contain_text("Applied")
        ada.go("/services?status=DRY_RUN")
        row = page.get_by_role("region", name="Services").get_by_role("row").filter(has_text="shop")
        expect(row).to_contain_text("Dry run")
        ada.go("/")
        counts = page.get_by_role("list", name="Services by state")
        expect(counts.get_by_role("button", name="1 Dry run")).to_be_visible()
    finally:
        story.stage.ask(_UPDATE, id=service, a={"dryRun": False})
        story.wait_healthy("dev")


def _deployment(story: DemoSteps) -> JsonObject:
    found = story.stage.ask(_WEB, id=story.services["dev"])["serviceDeployment"]["components"]
    return next(component for component in found if component["kind"] == "Deployment")
