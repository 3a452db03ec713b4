"""Keyboard-only use of the console."""

import re

from playwright.sync_api import Locator, Page

_MOST_TABS = 120


class Keys:
    """User without a mouse, who moves the focus with Tab."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.press = page.keyboard.press
        self.type = page.keyboard.type

    def reach(self, target: Locator) -> None:
        """Presses Tab until the target has the focus."""
        found = target.element_handle()
        for presses in range(1, _MOST_TABS):
            # Locating an element is slow, and pages rarely replace it, so do it every 20 presses.
            if presses % 20 == 0:
                found = target.element_handle()
            if found.evaluate("(one) => one === one.getRootNode().activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"{target} is not reached by Tab")

    def use(self, target: Locator, key: str = "Enter") -> None:
        """Focuses an element and presses a key."""
        self.reach(target)
        self.press(key)

    def write(self, target: Locator, text: str) -> None:
        """Focuses a field and replaces its text."""
        self.reach(target)
        self.press("Control+a")
        self.type(text)

    def skip(self) -> None:
        """Uses the skip link."""
        self._page.evaluate("document.activeElement.blur()")
        self.use(self._page.get_by_role("link", name="Skip to content"))

    def turn(self, letter: str, title: str) -> None:
        """Opens a page with its shortcut and skips to the content."""
        self.press("g")
        self.press(letter)
        self._page.get_by_role("heading", name=title, level=1).wait_for()
        self.skip()

    def find(self, text: str) -> None:
        """Opens the first result of the command palette."""
        self.press("Control+k")
        self.type(text)
        self._page.get_by_role("option", name=text).first.wait_for()
        self.press("Enter")


def button(page: Page, name: str) -> Locator:
    """Button whose name starts with a text."""
    return page.get_by_role("button", name=re.compile(f"^{name}"))
