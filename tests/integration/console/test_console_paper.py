"""The console on paper and on a narrow screen, in Chromium."""

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.integration.console.conftest import BrowserTab
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(240)

_PAPER: ViewportSize = {"width": 718, "height": 1000}
"""Printable area of A4 in pixels."""
_CUT = """() => [...document.querySelectorAll("main table *")]
  .filter((cell) => cell.scrollWidth > cell.clientWidth + 1)
  .filter((cell) => getComputedStyle(cell).overflowX !== "visible")
  .map((cell) => cell.textContent)"""
_HAS_ROOM = "(frame) => frame.scrollWidth <= frame.clientWidth"
_GROUND = "() => getComputedStyle(document.body).backgroundColor"
_AFTER_LINKS = """() => [...document.querySelectorAll("main a")]
  .map((link) => getComputedStyle(link, "::after").content)
  .filter((content) => content !== "none" && content !== "normal")"""


def _is_wider_than_window(page: Page) -> bool:
    return page.evaluate("() => document.documentElement.scrollWidth > innerWidth")


@pytest.mark.parametrize("path", ["/services", "/services/{dev}?tab=history", "/audit", "/reports"])
def test_a_page_on_paper_is_light_whole_and_without_navigation(
    ada: BrowserTab, story: DemoSteps, path: str
) -> None:
    page = ada.go(path.format(dev=story.services["dev"]))
    expect(page.locator("main table tbody tr").first).to_be_visible()
    page.evaluate("() => { document.documentElement.dataset.theme = 'dark'; }")
    page.set_viewport_size(_PAPER)
    page.emulate_media(media="print")
    assert page.evaluate(_GROUND) == "rgb(255, 255, 255)"
    expect(page.get_by_role("navigation")).to_have_count(0)
    expect(page.locator("main h1")).to_be_visible()
    expect(page.locator("main thead").first).to_be_visible()
    assert page.evaluate(_CUT) == [] and page.evaluate(_AFTER_LINKS) == []
    assert not _is_wider_than_window(page)
    assert page.pdf().startswith(b"%PDF")


def test_rows_of_a_table_are_cards_on_a_narrow_screen(ada: BrowserTab, story: DemoSteps) -> None:
    """Each cell has the title of its column before it, and nothing scrolls sideways."""
    page = ada.go(f"/services/{story.services['dev']}?tab=history")
    row = page.get_by_role("region", name="Deployments").get_by_role("row").nth(1)
    expect(row).to_be_visible()
    page.set_viewport_size({"width": 390, "height": 844})
    title = "(cell) => getComputedStyle(cell, '::before').content"
    cells = row.get_by_role("cell")
    assert cells.nth(2).evaluate(title) == '"Result"'
    assert not _is_wider_than_window(page)
    assert page.get_by_role("region", name="Deployments").evaluate(_HAS_ROOM)


def test_a_list_of_cards_is_sorted_by_one_field(ada: BrowserTab, story: DemoSteps) -> None:
    page = ada.go("/services")
    names = page.get_by_role("region", name="Services").get_by_role("link")
    expect(names.first).to_be_visible()
    field = page.get_by_label("Sort by")
    expect(field).to_be_hidden()
    page.set_viewport_size({"width": 390, "height": 844})
    expect(field).to_be_visible()
    rows = page.get_by_role("region", name="Services").get_by_role("row")
    found = rows.filter(has=page.get_by_role("link"))
    for order, clusters in (("ascending", ("dev", "prod")), ("descending", ("prod", "dev"))):
        field.select_option(label=f"Cluster, {order}")
        expect(found.first).to_contain_text(clusters[0])
        expect(found.last).to_contain_text(clusters[1])
    assert not _is_wider_than_window(page)


def test_the_actions_of_a_repository_fit_into_a_small_window(
    ada: BrowserTab, story: DemoSteps
) -> None:
    page = ada.go("/repositories")
    page.set_viewport_size({"width": 960, "height": 800})
    frame = page.get_by_role("region", name="Repositories")
    expect(frame.get_by_role("button", name="Remove…").first).to_be_visible()
    assert frame.evaluate(_HAS_ROOM)
