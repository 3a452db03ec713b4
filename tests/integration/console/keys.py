"""Somebody at the console who has no mouse."""

import re

from playwright.sync_api import Locator, Page

_MOST_TABS = 120


class Keys:
    """Somebody without a mouse: whatever is reached is reached by Tab, and meant by keys."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self.press = page.keyboard.press
        self.type = page.keyboard.type

    def reach(self, target: Locator) -> None:
        """Go on by Tab until the target has the focus."""
        found = target.element_handle()
        for presses in range(1, _MOST_TABS):
            # To find it takes longer than to look at it, and pages seldom make it anew meanwhile.
            if presses % 20 == 0:
                found = target.element_handle()
            if found.evaluate("(one) => one === one.getRootNode().activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"{target} is not reached by Tab")

    def use(self, target: Locator, key: str = "Enter") -> None:
        """Reach something and press it."""
        self.reach(target)
        self.press(key)

    def write(self, target: Locator, text: str) -> None:
        """Reach a field and have it say this."""
        self.reach(target)
        self.press("Control+a")
        self.type(text)

    def skip(self) -> None:
        """From the top of the page to its content."""
        self._page.evaluate("document.activeElement.blur()")
        self.use(self._page.get_by_role("link", name="Skip to content"))

    def turn(self, letter: str, title: str) -> None:
        """To a page by its letter, into its content."""
        self.press("g")
        self.press(letter)
        self._page.get_by_role("heading", name=title, level=1).wait_for()
        self.skip()

    def find(self, text: str) -> None:
        """Anywhere, by typing."""
        self.press("Control+k")
        self.type(text)
        self._page.get_by_role("option", name=text).first.wait_for()
        self.press("Enter")


def button(page: Page, name: str) -> Locator:
    """The button whose name begins so."""
    return page.get_by_role("button", name=re.compile(f"^{name}"))
