"""Checks of any page of the console: accessibility (axe-core) and width."""

from typing import Any

from playwright.sync_api import Page, expect

from tests.integration.console.conftest import AXE

PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_AXE = """async ([part, rules]) => (await axe.run(part ?? document, {resultTypes: ["violations"],
    ...(rules === null ? {} : {runOnly: rules})})).violations
  .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" ")}`)"""


def settle(page: Page) -> None:
    """Waits until the page is loaded and painted."""
    page.get_by_role("heading", level=1).first.wait_for()
    expect(page.locator(".skeleton")).to_have_count(0)
    page.evaluate(PAINTED)


def violations(page: Page, rules: list[str] | None = None, part: str | None = None) -> list[Any]:
    """Returns axe-core's violations in a page or a part of it, by all or some rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    return page.evaluate(_AXE, [part, rules])


def is_wider_than_window(page: Page) -> bool:
    """True if the page scrolls horizontally."""
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")
