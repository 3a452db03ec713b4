"""Dialogs, sign-in and touch targets: accessibility (axe-core) in both themes, and on a phone."""

import base64
import gzip
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.sync_api import CDPSession, Page, ViewportSize, expect

from tests.integration.console.conftest import ARTEFACTS, BUILT, BrowserTab, commit
from tests.integration.console.page_checks import PAINTED, is_wider_than_window, settle, violations
from towline.demo.sample import shop
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(180)

THEMES = ("light", "dark")
MOST_SCRIPT_BYTES = 150_000
PHONE: ViewportSize = {"width": 390, "height": 844}
THUMB = 44


class _Camera:
    """Takes screenshots with fast compression."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)

    def take(self, path: Path) -> None:
        self._page.evaluate(PAINTED)
        asked = {"format": "png", "optimizeForSpeed": True}
        path.write_bytes(
            base64.b64decode(self._session.send("Page.captureScreenshot", asked)["data"])
        )


def _too_small(page: Page, within: str) -> list[str]:
    """Returns the touch targets in an element that are less than 44 pixels high."""
    return page.evaluate(
        """([within, least]) => [...document.querySelectorAll(
          ['button', 'a.button', 'input', 'select', 'textarea', 'summary']
            .map((what) => `${within} ${what}`).join())]
          .filter((one) => one.checkVisibility() && one.getBoundingClientRect().height < least)
          .map((one) => one.outerHTML.slice(0, 80))""",
        [within, THUMB],
    )


def test_a_release_is_approved_on_a_phone(ada: BrowserTab, story: DemoSteps) -> None:
    """The link of a notification leads to a decision with large touch targets."""
    edge = story.waiting_edge(commit(story, shop("3.0"), "Release 3.0"))
    page = ada.page
    page.set_viewport_size(PHONE)
    ada.go(f"/pipelines/{story.pipeline()['id']}/gates/{edge['gates'][0]['id']}")
    approve = page.get_by_role("button", name="Approve…")
    approve.wait_for()
    assert _too_small(page, "main") == []
    approve.click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("Deployment web")
    assert _too_small(page, "dialog") == []
    assert not is_wider_than_window(page)
    page.screenshot(path=ARTEFACTS / "approve-phone.png")
    dialog.get_by_role("button", name="Approve release").click()
    expect(page.get_by_text("Release approved for")).to_be_visible()
    story.wait_healthy("prod")


def _open_palette(page: Page) -> None:
    page.keyboard.press("Control+k")
    page.keyboard.type("sho")
    page.get_by_role("option", name="dev/shop").wait_for()


def _sync(page: Page) -> None:
    page.get_by_role("button", name="Sync now").click()
    page.locator(".toasts p").wait_for()


def _end_session(page: Page) -> None:
    page.context.clear_cookies()
    page.get_by_role("button", name="Sync now").click()
    page.get_by_label("Password").wait_for()


# Function that opens it, and its selector.
_ABOVE: dict[str, tuple[Callable[[Page], None], str]] = {
    "toast": (_sync, ".toasts"),
    "palette": (_open_palette, "dialog[open]"),
    "keys": (lambda page: page.keyboard.press("?"), "dialog[open]"),
    "deletion": (
        lambda page: page.get_by_role("button", name="Delete service").click(),
        "dialog[open]",
    ),
    "signed-out": (_end_session, "dialog[open]"),
}


def test_overlays_are_accessible(stranger: BrowserTab, story: DemoSteps) -> None:
    """Toasts, command palette, shortcuts, confirmation and sign-in dialogs are accessible."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page = stranger.go(f"/services/{story.services['dev']}?tab=settings")
    stranger.sign_in()
    settle(page)
    camera = _Camera(page)
    found = {}
    for name, (open_it, part) in _ABOVE.items():
        # A dialog that is still closing would get the next key.
        page.locator("dialog[open]").wait_for(state="hidden")
        open_it(page)
        page.locator(part).wait_for()
        for theme in THEMES:
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            camera.take(ARTEFACTS / f"above-{name}-{theme}.png")
            found[f"{name} {theme}"] = violations(page, part=part)
        page.keyboard.press("Escape")
    assert {name: what for name, what in found.items() if what} == {}


def test_a_change_is_undone_by_keyboard(ada: BrowserTab, story: DemoSteps) -> None:
    """The message of a reversible change has an accessible button, and its key works."""
    page = ada.go(f"/services/{story.services['dev']}")
    page.get_by_role("button", name="Suspend").click()
    message = page.get_by_role("status").filter(has_text="Service suspended")
    expect(message.get_by_role("button", name="Undo")).to_be_visible()
    expect(page.get_by_role("button", name="Resume")).to_be_visible()
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        assert violations(page, part=".toasts") == []
    page.keyboard.press("z")
    expect(page.get_by_text("Undone: Service suspended")).to_be_visible()
    expect(page.get_by_role("button", name="Suspend")).to_be_visible()
    expect(page.get_by_role("button", name="Undo")).to_have_count(0)


def test_an_action_shows_its_effect_first(ada: BrowserTab, story: DemoSteps) -> None:
    """The dialog of an action is accessible on a screen and on a phone. It previews a new global
    service, shows its command, and creates it."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page = ada.go("/generators")
    page.get_by_role("button", name="Create global service…").click()
    dialog = page.get_by_role("dialog")
    repository = story.stage.ask("{ gitRepositories { edges { node { url } } } }")
    fields = {
        "Name": "monitoring",
        "Service name": "monitoring",
        "Namespace": "monitoring",
        "Repository": repository["gitRepositories"]["edges"][0]["node"]["url"],
        "Folder": "monitoring",
        "Cluster tags": "tier=nowhere",
    }
    for label, text in fields.items():
        dialog.get_by_label(re.compile(f"^{label}( |$)")).fill(text)
    dialog.get_by_role("button", name="Preview").click()
    expect(dialog).to_contain_text("0 created, 0 updated, 0 deleted")
    dialog.get_by_text("Command", exact=True).click()
    expect(dialog).to_contain_text("towline globals create monitoring")
    camera = _Camera(page)
    for theme in THEMES:
        page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
        camera.take(ARTEFACTS / f"above-action-{theme}.png")
        assert violations(page, part="dialog[open]") == []
    page.set_viewport_size(PHONE)
    camera.take(ARTEFACTS / "above-action-phone.png")
    assert not is_wider_than_window(page)
    dialog.get_by_role("button", name="Create global service").click()
    expect(page.get_by_role("link", name="monitoring")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_signing_in_is_for_everybody(stranger: BrowserTab, theme: str) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    stranger.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page = stranger.go("/")
    page.get_by_label("Password").wait_for()
    page.screenshot(path=ARTEFACTS / f"login-{theme}.png")
    assert violations(page) == []


def test_the_fleet_page_is_small() -> None:
    """The scripts of the first page are small when compressed."""
    index = BUILT / "index.html"
    if not index.exists():
        pytest.skip("the console is not built: make console")
    first = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', index.read_text())
    assert first
    total = sum(len(gzip.compress((BUILT / name).read_bytes())) for name in first)
    assert total <= MOST_SCRIPT_BYTES, first
