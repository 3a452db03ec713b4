"""Each route of the console has pictures, which the documentation shows."""

import re

from tests.integration.console.conftest import ROOT
from tests.integration.console.pictures import FOLDER, VIEWS
from tests.integration.console.screens import (
    NAMES,
    REDIRECTS,
    ROUTES,
    SCREENS,
    Screen,
    route_of,
    routes,
)

PAGE = ROOT / "docs" / "reference" / "screens.md"
FILES = {f"{name}-{view.name}.webp" for name in NAMES for view in VIEWS}
SOURCE = """export const INBOX = "/inbox";
export const PAGES = [
  {
    path: INBOX,
    page: a,
  },
  { path: "/services/new", page: b },
  {
    path: "/services/:id",
    page: c,
  },
];"""


def test_routes_are_read_from_the_source() -> None:
    assert routes(SOURCE) == ["/inbox", "/services/new", "/services/:id"]


def test_a_screen_has_the_first_route_that_fits() -> None:
    paths = routes(SOURCE)
    assert route_of(Screen("new", "/services/new"), paths) == "/services/new"
    assert route_of(Screen("one", "/services/{service}?tab=logs"), paths) == "/services/:id"
    assert route_of(Screen("other", "/services/{service}/more"), paths) == ""


def test_every_route_has_a_screen() -> None:
    """A new page of the console needs a screen, and thereby pictures."""
    source = ROUTES.read_text()
    paths = routes(source)
    assert len(paths) == len(re.findall(r"\bpage: (?:later\(|\w+ ?[,}])", source))
    assert set(paths) - {route_of(screen, paths) for screen in SCREENS} == REDIRECTS


def test_every_screen_has_its_pictures() -> None:
    """`make screens` takes missing pictures, and removes those of removed screens."""
    assert {path.name for path in FOLDER.iterdir()} == FILES
    assert len(NAMES) == len(set(NAMES))


def test_the_documentation_shows_every_picture() -> None:
    shown = re.findall(
        r'<img src="\.\./images/screens/([^"]+)"[^>]* loading="lazy">', PAGE.read_text()
    )
    assert sorted(shown) == sorted(FILES)
