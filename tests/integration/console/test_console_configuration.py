"""The page of configuration sources: a folder in Git runs the installation."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.integration.console.conftest import BrowserTab, commit
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(240)

NAME = "console-fleet"
_GROUP = """apiVersion: towline.io/v1
kind: Group
metadata: {name: release-team}
spec: {description: Releases}
"""


@pytest.fixture
def account(story: DemoSteps) -> Iterator[str]:
    """A service account that may change everything; removes what the test left."""
    ask = story.stage.ask
    made = ask(
        f'mutation {{ createServiceAccount(attributes: {{name: "{NAME}"}}) {{ id email }} }}'
    )
    email: str = made["createServiceAccount"]["email"]
    binding = f'{{role: "admin", scope: "installation", user: "{email}"}}'
    ask(f"mutation {{ createRoleBinding(attributes: {binding}) {{ id }} }}")
    yield email
    for group in ask("{ groups { edges { node { id name } } } }")["groups"]["edges"]:
        if group["node"]["name"] == "release-team":
            ask("mutation ($id: ID!) { deleteGroup(groupId: $id) { id } }", id=group["node"]["id"])
    commit(story, {"installation/groups.yaml": None}, "Remove the team")


def _act(page: Page, title: str) -> Locator:
    """Opens the dialog of an action of the open source."""
    source = page.get_by_role("group", name=f"configuration source {NAME}")
    source.get_by_role("button", name=f"{title}…").click()
    return page.get_by_role("dialog")


def _run(dialog: Locator, title: str) -> None:
    dialog.get_by_role("button", name=title, exact=True).click()
    expect(dialog).to_be_hidden()


def test_a_folder_is_followed_approved_and_explained(
    ada: BrowserTab, story: DemoSteps, account: str
) -> None:
    """From the form to the plan, its approval, a commit with a problem, and the end."""
    commit(story, {"installation/groups.yaml": _GROUP}, "Add a team")
    page = ada.go("/configuration")
    page.get_by_role("button", name="Create configuration source").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("gets the permissions of the service account")
    dialog.get_by_role("textbox", name=re.compile("^Name")).fill(NAME)
    dialog.get_by_role("combobox", name=re.compile("^Repository")).fill(story.stage.repository.url)
    dialog.get_by_role("textbox", name=re.compile("^Folder")).fill("installation")
    dialog.get_by_role("combobox", name=re.compile("^Service account")).fill(account)
    dialog.get_by_role("combobox", name=re.compile("^New commits")).select_option("APPROVAL")
    _run(dialog, "Create configuration source")

    row = page.get_by_role("row", name=re.compile(NAME))
    expect(row).to_contain_text("Awaiting approval")
    expect(row).to_contain_text("installation at main")
    row.get_by_role("link", name=NAME).click()
    plan = page.get_by_role("region", name="Plan")
    expect(plan).to_contain_text("create")
    expect(plan).to_contain_text("Group release-team")
    expect(plan).to_contain_text("installation/groups.yaml:1")
    dialog = _act(page, "Approve plan")
    expect(dialog).to_contain_text("Applies 1 changes of commit")
    expect(dialog).to_contain_text(f"towline config-sources approve {NAME} --digest")
    _run(dialog, "Approve plan")
    main = page.get_by_role("main")
    expect(main).to_contain_text("Current")
    expect(plan).to_be_hidden()

    wrong = _GROUP.replace("description", "descripton")
    commit(story, {"installation/groups.yaml": wrong}, "Break the team")
    problems = page.get_by_role("region", name="Problems")
    expect(problems).to_contain_text("installation/groups.yaml:4")
    expect(problems).to_contain_text("description")
    expect(main).to_contain_text("Failed")

    _run(_act(page, "Suspend"), "Suspend")
    expect(main).to_contain_text("Suspended")
    dialog = _act(page, "Delete")
    expect(dialog).to_contain_text("Its resources stay")
    dialog.get_by_role("textbox").fill(NAME)
    _run(dialog, "Delete")
    expect(page.get_by_role("row", name=re.compile(NAME))).to_have_count(0)
    groups = story.stage.ask("{ groups { edges { node { name } } } }")["groups"]["edges"]
    assert "release-team" in [group["node"]["name"] for group in groups]


def test_a_cluster_shows_the_settings_of_its_agent(ada: BrowserTab, story: DemoSteps) -> None:
    ask = story.stage.ask
    made = []
    for name in ("all-agents", "more-agents"):
        create = f'createAgentSettings(attributes: {{name: "{name}"}}) {{ id }}'
        made.append(ask(f"mutation {{ {create} }}")["createAgentSettings"]["id"])
    page = ada.go("/clusters/dev")
    shown = page.get_by_role("definition").filter(has_text="all-agents")
    expect(shown).to_have_text("all-agents · conflict with more-agents")
    for id in made:
        ask("mutation ($id: ID!) { deleteAgentSettings(id: $id) { id } }", id=id)
