"""Use of the console through a screen reader: Chromium's accessibility tree, and announcements."""

import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TypeVar

from playwright.sync_api import Error, Page

from tests.integration.console.conftest import PATIENCE

Found = TypeVar("Found")

_IGNORED = {"none", "generic", "InlineTextBox", "LineBreak"}
# Live regions, and whether a change reads the whole region or only its new text (WAI-ARIA 1.2).
_LISTEN = """() => {
  window.announcements = [];
  const live = "[aria-live=polite],[aria-live=assertive],[role=status],[role=alert],[role=log]";
  const say = (region) => {
    const text = (region?.innerText ?? "").trim();
    if (text !== "" && announcements.at(-1) !== text) announcements.push(text);
  };
  new MutationObserver((changes) => {
    for (const { target, addedNodes } of changes) {
      const near = target.nodeType === Node.ELEMENT_NODE ? target : target.parentElement;
      say(near?.closest(live));
      for (const node of addedNodes)
        if (node.nodeType === Node.ELEMENT_NODE) {
          if (node.matches(live)) say(node);
          for (const inner of node.querySelectorAll(live)) say(inner);
        }
    }
  }).observe(document, { subtree: true, childList: true, characterData: true });
}"""


@dataclass(frozen=True)
class Heard:
    """An element as a screen reader speaks it."""

    role: str
    name: str
    node: int
    """Id of the element in the browser."""
    states: Mapping[str, object]


class ScreenReader:
    """User who hears the page, and who finds elements only by role and name."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._browser = page.context.new_cdp_session(page)
        page.add_init_script(f"({_LISTEN})()")
        self.press = page.keyboard.press

    def open(self, url: str) -> None:
        """Opens a page; announcements are heard from its start."""
        self._page.goto(url)

    def elements(self) -> Iterator[Heard]:
        """Reads the page from top to bottom."""
        for node in self._browser.send("Accessibility.getFullAXTree")["nodes"]:
            role = node.get("role", {}).get("value", "")
            if not node.get("ignored") and role not in _IGNORED and "backendDOMNodeId" in node:
                states = {
                    given["name"]: given["value"].get("value") for given in node["properties"]
                }
                name = node.get("name", {}).get("value", "").strip()
                yield Heard(role, name, node["backendDOMNodeId"], states)

    def find(self, role: str, name: str, *, last: bool = False) -> Heard:
        """Waits for the first, or last, element of a role whose name starts with a text."""

        def look() -> Heard | None:
            found = [
                heard
                for heard in self.elements()
                if heard.role == role and heard.name.startswith(name)
            ]
            return found[-1 if last else 0] if found else None

        return self._wait(look, f"no {role} {name!r}")

    def focus(self, role: str, name: str, *, last: bool = False) -> Heard:
        """Moves the focus to an element, and checks that the element is said to have it."""

        def move() -> Heard | None:
            heard = self.find(role, name, last=last)
            try:
                self._browser.send("DOM.focus", {"backendNodeId": heard.node})
            except Error:
                # It is disabled until the page has checked the form, or was drawn again.
                return None
            focused = [other.node for other in self.elements() if other.states.get("focused")]
            return heard if heard.node in focused else None

        return self._wait(move, f"{role} {name!r} takes no focus")

    def use(self, role: str, name: str, *, last: bool = False) -> None:
        """Activates an element by the keyboard."""
        self.focus(role, name, last=last)
        self.press("Space" if role in {"checkbox", "radio"} else "Enter")

    def write(self, role: str, name: str, text: str) -> None:
        """Replaces the text of a field."""
        self.focus(role, name)
        self.press("Control+a")
        self._page.keyboard.type(text)

    def reads(self, text: str) -> None:
        """Waits until the page has a text."""
        self._wait(lambda: any(text in heard.name for heard in self.elements()), f"no {text!r}")

    def hears(self, text: str) -> None:
        """Waits for an announcement that contains a text."""
        self._wait(lambda: any(text in said for said in self.announcements()), f"{text!r} not said")

    def forget(self) -> None:
        """Forgets the announcements up to now."""
        self._page.evaluate("announcements.length = 0")

    def announcements(self) -> list[str]:
        """All announcements since the page was opened."""
        return [re.sub(r"\s+", " ", text) for text in self._page.evaluate("announcements")]

    def headings(self) -> list[str]:
        """Names of the headings, which screen readers list as an outline."""
        return [heard.name for heard in self.elements() if heard.role == "heading"]

    def nameless(self) -> list[str]:
        """Roles of elements for use that a screen reader cannot name."""
        usable = {"button", "link", "textbox", "combobox", "checkbox", "radio", "tab", "menuitem"}
        return [heard.role for heard in self.elements() if heard.role in usable and not heard.name]

    def _wait(self, look: Callable[[], Found | None], problem: str) -> Found:
        deadline = time.monotonic() + PATIENCE / 1_000
        while not (found := look()):
            if time.monotonic() > deadline:
                outline = ", ".join(f"{heard.role} {heard.name!r}" for heard in self.elements())
                said = "; ".join(self.announcements())
                raise AssertionError(f"{problem}; the page has: {outline}; it said: {said}")
            self._page.wait_for_timeout(50)
        return found
