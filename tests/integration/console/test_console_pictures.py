"""All screens in both themes and on a phone: pictures, accessibility (axe-core) and page width.

The pictures are those of the documentation. `make screens` writes them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.console.conftest import (
    ARTEFACTS,
    PATIENCE,
    ROOT,
    BrowserTab,
    open_setup,
    set_up,
)
from tests.integration.console.long_texts import TEXT, lengthen_texts
from tests.integration.console.page_checks import (
    PAINTED,
    is_wider_than_window,
    settle,
    violations,
)
from tests.integration.console.pictures import (
    DARK,
    IS_WRITING,
    LIGHT,
    NARROW,
    VIEWS,
    Camera,
    Gallery,
    measure_fonts,
    remove_others,
)
from tests.integration.console.screens import NAMES, ROUTES, SCREENS, Screen, route_of, routes
from tests.integration.console.showroom import add_fleet, stock
from tests.integration.console.still import hold_still
from tests.migrated import put_sqlite
from towline.demo.environment import DemoEnvironment
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(600)

CONSOLE_PAGE = ROOT / "docs" / "reference" / "console.md"
_TABS = """() => [...document.querySelectorAll("[role=tab]")]
  .map((tab) => [tab.id, tab.getAttribute("aria-selected") === "true"])"""

_WINDOWS = (1440, 1280)
_OVERFLOWING = """() => [...document.querySelectorAll("main *")]
  .filter((part) => part.checkVisibility() && part.scrollWidth > part.clientWidth + 1)
  .filter((part) => ["auto", "scroll"].includes(getComputedStyle(part).overflowX))
  .map((part) => `${part.getAttribute("aria-label") ?? part.className}: ${part.scrollWidth} px`)"""


@dataclass
class Showroom:
    """Control plane for pictures, the page that set it up, and the ids of its resources."""

    stage: DemoEnvironment
    set_up: Page
    ids: dict[str, str]


@pytest.fixture(scope="module")
def showroom(kubernetes: Path, chromium: Browser) -> Iterator[Showroom]:
    """Starts a control plane of its own, because other tests change what screens show."""
    with DemoEnvironment(lambda _: None) as stage:
        add_fleet(put_sqlite(stage.data))
        stage.start()
        form = chromium.new_page()
        open_setup(form, stage.http_url, stage.data)
        administrator = chromium.new_page()
        set_up(administrator, stage.http_url, stage.data)
        administrator.close()
        story = DemoSteps.begin(stage, lambda _: None)
        story.wait_healthy("dev")
        yield Showroom(stage, form, stock(story, chromium))


@dataclass
class Visit:
    """Visit of all screens, with the problems that it found."""

    desk: BrowserTab
    camera: Camera
    gallery: Gallery
    ids: dict[str, str]
    problems: list[str] = field(default_factory=list)
    violations: dict[str, dict[str, int]] = field(default_factory=dict)
    shown_tabs: set[tuple[str, str]] = field(default_factory=set)
    known_tabs: set[tuple[str, str]] = field(default_factory=set)

    def open(self, screen: Screen) -> None:
        """Opens a screen like a link does."""
        self.desk.turn_to(screen.path.format(**self.ids))
        settle(self.desk.page)
        if is_wider_than_window(self.desk.page):
            self.problems.append(f"{screen.name} is wider than the window")

    def show_wide(self, screen: Screen) -> None:
        """Checks a screen in both themes."""
        self.open(screen)
        # The frame around the content is the same on all pages, so check it once.
        part = None if screen.name == "fleet" else "main"
        for view in (LIGHT, DARK):
            view.show(self.desk.page)
            name = f"{screen.name}-{view.name}"
            self.gallery.compare(self.camera, name, screen.max_share)
            # Themes differ only in their colours.
            found = violations(self.desk.page, None if view is LIGHT else ["color-contrast"], part)
            self.problems += [f"{screen.name} {view.name}: {each}" for each in found]
            self.violations.setdefault(screen.name, {})[view.name] = len(found)
        self._note_tabs(screen)

    def show_narrow(self, screen: Screen) -> None:
        """Checks a screen on a phone."""
        self.open(screen)
        name = f"{screen.name}-{NARROW.name}"
        self.gallery.compare(self.camera, name, screen.max_share)

    def _note_tabs(self, screen: Screen) -> None:
        route = route_of(screen, routes(ROUTES.read_text()))
        for id, is_shown in self.desk.page.evaluate(_TABS):
            self.known_tabs.add((route, id))
            if is_shown:
                self.shown_tabs.add((route, id))


def report(found: dict[str, dict[str, int]]) -> str:
    """Formats the table of the documentation: violations by screen and theme."""
    rows = [f"| {name} | {of['light']} | {of['dark']} |" for name, of in sorted(found.items())]
    return "\n".join(["| screen | light | dark |", "|---|---|---|", *rows])


@pytest.fixture
def visit(chromium: Browser, showroom: Showroom) -> Iterator[Visit]:
    """Signs the administrator in."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    context = chromium.new_context(locale="en-GB", timezone_id="UTC")
    context.set_default_timeout(PATIENCE)
    desk = BrowserTab(showroom.stage, context.new_page())
    desk.listen()
    hold_still(desk.page)
    gallery = Gallery(measure_fonts(desk.page))
    yield Visit(desk, Camera(desk.page), gallery, showroom.ids)
    # Pages ask again at any time: a route whose answer is on its way would lose its context.
    desk.page.unroute_all(behavior="wait")
    context.close()
    assert desk.complaints == []


def test_every_screen_is_for_everybody(visit: Visit, showroom: Showroom) -> None:
    """No screen has accessibility violations, is wider than the window or a phone, or differs from
    its pictures. The documentation has the report."""
    camera = Camera(showroom.set_up)
    for view in VIEWS:
        view.show(showroom.set_up)
        visit.gallery.compare(camera, f"set-up-{view.name}")
    page = visit.desk.go("/")
    for view in VIEWS:
        view.show(page)
        page.get_by_label("Password").wait_for()
        visit.gallery.compare(visit.camera, f"sign-in-{view.name}")
    LIGHT.show(page)
    visit.desk.sign_in()
    settle(page)
    for screen in SCREENS:
        LIGHT.show(page)
        visit.show_wide(screen)
    NARROW.show(page)
    for screen in SCREENS:
        visit.show_narrow(screen)
    if IS_WRITING:
        remove_others(NAMES)
    unseen = visit.known_tabs - visit.shown_tabs
    problems = [*visit.problems, *visit.gallery.problems]
    assert problems == [], "\n".join(problems)
    assert unseen == set(), "these tabs have no picture"
    table = report(visit.violations)
    (ARTEFACTS / "axe.md").write_text(table + "\n")
    assert table in CONSOLE_PAGE.read_text(), "docs lack artifacts/console/axe.md"
    if not visit.gallery.has_fonts:
        pytest.skip("platform: the pictures have other fonts than this machine")


def test_long_texts_fit_into_the_window(visit: Visit) -> None:
    """Tables with long names and messages keep their last column in a usual window."""
    lengthen_texts(visit.desk.page)
    page = visit.desk.go("/")
    LIGHT.show(page)
    visit.desk.sign_in()
    page.get_by_role("heading", name="Fleet").wait_for()
    problems = []
    for screen in SCREENS:
        visit.desk.turn_to(screen.path.format(**visit.ids))
        settle(page)
        for width in _WINDOWS:
            page.set_viewport_size({"width": width, "height": 900})
            page.evaluate(PAINTED)
            problems += [
                f"{screen.name} at {width}: {each}" for each in page.evaluate(_OVERFLOWING)
            ]
    assert problems == [], "\n".join(problems)
    visit.desk.turn_to("/services")
    reason = page.locator(".clip").filter(has_text=TEXT).first
    reason.hover()
    expect(reason).to_have_attribute("title", re.compile(re.escape(TEXT)))
