"""A working day through a screen reader: roles, names and announcements, no pointer, no picture."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.integration.console.conftest import (
    EMAIL,
    PASSWORD,
    PATIENCE,
    SCREEN,
    BrowserTab,
    commit,
    viewer,
)
from tests.integration.console.reader import ScreenReader
from towline.demo.environment import DemoEnvironment
from towline.demo.sample import shop
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(240)


@pytest.fixture
def reader(ada: BrowserTab) -> ScreenReader:
    return ScreenReader(ada.page)


@pytest.fixture
def newcomer(chromium: Browser, stage: DemoEnvironment) -> Iterator[BrowserContext]:
    context = chromium.new_context(viewport=SCREEN)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


def test_signing_in_tells_a_wrong_password_and_the_page_that_follows(
    newcomer: BrowserContext, story: DemoSteps
) -> None:
    reader = ScreenReader(newcomer.new_page())
    reader.open(f"{story.stage.http_url}/services")
    reader.write("textbox", "E-mail", EMAIL)
    reader.write("textbox", "Password", "not-the-password-1")
    reader.press("Enter")
    reader.hears("Wrong e-mail or password")
    reader.write("textbox", "Password", PASSWORD)
    reader.press("Enter")
    reader.hears("Services")
    assert reader.nameless() == []


def test_a_service_is_created_broken_explained_and_rolled_back(
    reader: ScreenReader, story: DemoSteps
) -> None:
    base = story.stage.http_url
    reader.open(f"{base}/services/new")
    reader.hears("New service")
    reader.write("combobox", "Cluster", "dev")
    reader.press("Escape")
    reader.write("combobox", "Repository", story.stage.repository.url)
    reader.press("Escape")
    reader.write("textbox", "Name", "heard")
    reader.write("textbox", "Default namespace", "heard")
    reader.write("textbox", "Folder", "dev")
    reader.use("button", "Create service")
    reader.hears("heard Healthy")
    assert reader.headings()[0].startswith("heard")
    assert reader.nameless() == []

    commit(story, {"dev/unheard.yaml": "kind: [\n"}, "Break it")
    try:
        reader.hears("heard Failed")
        reader.reads("unheard.yaml, line 2")
    finally:
        reader.forget()
        commit(story, {"dev/unheard.yaml": None, **shop("1.8")}, "Mend it as 1.8")
    reader.hears("heard Healthy")

    reader.use("tab", "History")
    reader.use("button", "Roll back", last=True)
    reader.find("dialog", "Roll back")
    reader.use("button", "Roll back", last=True)
    reader.hears("heard pinned to")
    reader.hears("heard Pinned")
    reader.forget()
    reader.use("button", "Unpin and follow main")
    reader.hears("heard Healthy")


def test_a_release_is_approved(reader: ScreenReader, story: DemoSteps) -> None:
    story.waiting_edge(commit(story, shop("1.9"), "Release 1.9"))
    reader.open(f"{story.stage.http_url}/pipelines")
    reader.hears("Pipelines")
    reader.use("button", "Approve…")
    reader.find("dialog", "Approve")
    reader.use("button", "Approve release")
    reader.hears("Release approved for prod")
    story.wait_healthy("prod")
    assert reader.nameless() == []


def test_access_is_granted(reader: ScreenReader, stranger: BrowserTab, story: DemoSteps) -> None:
    token = viewer(story, "listener")
    stranger.page.set_extra_http_headers({"Authorization": f"Bearer {token}"})
    asking = ScreenReader(stranger.page)
    asking.open(f"{story.stage.http_url}/access?tab=requests&role=editor")
    asking.write("textbox", "Scope", "cluster/prod")
    asking.write("textbox", "Reason", "release 43 is stuck")
    asking.use("button", "Request access")
    asking.hears("Access requested")
    reader.open(f"{story.stage.http_url}/inbox")
    reader.hears("Needs you")
    reader.reads("release 43 is stuck")
    reader.use("button", "Approve")
    reader.hears("has the role editor")
    asking.reads("Granted")
