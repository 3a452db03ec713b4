"""All screens in both themes: accessibility (axe-core), page width and screenshots."""

import base64
import gzip
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import CDPSession, Page, ViewportSize, expect

from tests.integration.console.conftest import ARTEFACTS, AXE, BUILT, ROOT, Desk, commit
from tests.integration.console.furnished import furnish
from towline.demo.sample import shop
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(180)

THEMES = ("light", "dark")
MOST_SCRIPT_BYTES = 150_000
PHONE: ViewportSize = {"width": 390, "height": 844}
THUMB = 44
DOCS = ROOT / "docs" / "reference" / "console.md"
_PAINTED = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"
_AXE = """async ([part, rules]) => (await axe.run(part ?? document, {resultTypes: ["violations"],
    ...(rules === null ? {} : {runOnly: rules})})).violations
  .map(({id, nodes}) => `${id}: ${nodes.slice(0, 3).map((node) => node.html).join(" ")}`)"""


def _screens(story: DemoSteps) -> dict[str, str]:
    """Returns the path of each screen by name."""
    service, pipeline = story.services["dev"], story.pipeline()["id"]
    made = furnish(story)
    components = story.stage.ask(
        "query ($id: ID!) { serviceDeployment(id: $id) { components { id kind } } }", id=service
    )["serviceDeployment"]["components"]
    ids = {one["kind"]: one["id"] for one in components}
    return {
        "fleet": "/",
        "inbox": "/inbox",
        "services": "/services",
        "service": f"/services/{service}",
        "service-objects": f"/services/{service}?tab=objects",
        "service-topology": f"/services/{service}?tab=topology&object={ids['Deployment']}",
        "service-timeline": f"/services/{service}?tab=timeline",
        "service-history": f"/services/{service}?tab=history",
        "service-provenance": f"/services/{service}?tab=provenance",
        "service-preview": f"/services/{service}?tab=preview&ref=main",
        "service-values": f"/services/{service}?tab=values",
        "service-events": f"/services/{service}?tab=events",
        "service-logs": f"/services/{service}?tab=logs",
        "service-settings": f"/services/{service}?tab=settings",
        "service-new": "/services/new",
        "object": f"/objects/{ids['Deployment']}",
        "object-owners": f"/objects/{ids['Deployment']}?tab=owners",
        "object-drift": f"/objects/{ids['Deployment']}?tab=drift",
        "object-shell": f"/objects/{ids['Pod']}?tab=shell",
        "clusters": "/clusters",
        "cluster": "/clusters/dev",
        "cluster-maintenance": "/clusters/dev?tab=maintenance",
        "join": "/clusters/new",
        "cluster-groups": f"/clusters/groups?open={made.cluster_group}",
        "cluster-jobs": "/clusters/dev?tab=jobs",
        "people": f"/people?open={made.account}",
        "people-groups": f"/people?tab=groups&open={made.group}",
        "projects": "/projects",
        "installation": "/installation",
        "notifications": "/notifications",
        "notifications-rules": f"/notifications?tab=rules&open={made.rule}",
        "notifications-sinks": "/notifications?tab=sinks",
        "notifications-deliveries": "/notifications?tab=deliveries",
        "generators": f"/generators?open={made.global_service}",
        "generators-sets": "/generators?tab=sets",
        "generators-namespaces": "/generators?tab=namespaces",
        "charts": "/repositories/charts",
        "revisions": "/pipelines/revisions",
        "service-maintenance": f"/services/{service}?tab=maintenance",
        "pipeline-releases": f"/pipelines/{pipeline}?tab=releases",
        "pipelines": "/pipelines",
        "pipeline-graph": f"/pipelines/{pipeline}?tab=graph",
        "pipeline-history": f"/pipelines/{pipeline}?tab=history",
        "pipeline-edit": f"/pipelines/{pipeline}/edit",
        "gate": f"/pipelines/{pipeline}/gates/{made.gate}",
        "secrets": "/secrets?new=1",
        "secret": f"/secrets/{made.secret}?set=1",
        "search": "/search?q=kind%3ADeployment",
        "repositories": "/repositories?new=1",
        "contexts": "/contexts?edit=network",
        "delivery": "/reports?span=7",
        "delivery-timeline": "/reports?tab=timeline&span=7",
        "delivery-groups": "/reports?tab=breakdown",
        "audit": "/audit",
        "access": "/access",
        "access-requests": "/access?tab=requests",
        "access-fences": "/access?tab=fences",
        "access-kubectl": "/access?tab=kubeconfig",
        "access-who": "/access?tab=who",
        "access-roles": "/access?tab=roles&role=*",
        "access-sessions": "/access?tab=sessions",
        "nowhere": "/no/such/page",
    }


def _settle(page: Page) -> None:
    """Waits until the page is loaded and painted."""
    page.get_by_role("heading", level=1).first.wait_for()
    expect(page.locator(".skeleton")).to_have_count(0)
    page.evaluate(_PAINTED)


def _violations(page: Page, rules: list[str] | None = None, part: str | None = None) -> list[Any]:
    """Returns axe-core's violations in a page or a part of it, by all or some rules."""
    if not page.evaluate("'axe' in window"):
        page.evaluate(AXE.read_text())
    return page.evaluate(_AXE, [part, rules])


def _wider(page: Page) -> bool:
    return page.evaluate("document.documentElement.scrollWidth > innerWidth")


class _Camera:
    """Takes screenshots with fast compression."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._session: CDPSession = page.context.new_cdp_session(page)

    def take(self, path: Path) -> None:
        self._page.evaluate(_PAINTED)
        asked = {"format": "png", "optimizeForSpeed": True}
        path.write_bytes(
            base64.b64decode(self._session.send("Page.captureScreenshot", asked)["data"])
        )


def _report(found: dict[str, dict[str, int]]) -> str:
    """Formats the table of the documentation: violations by screen and theme."""
    rows = [f"| {name} | " + " | ".join(str(n) for n in of.values()) + " |"
            for name, of in sorted(found.items())]  # fmt: skip
    return "\n".join([f"| screen | {' | '.join(THEMES)} |", "|---|" + "---|" * len(THEMES), *rows])


@pytest.mark.timeout(400)
def test_every_screen_is_for_everybody(ada: Desk, story: DemoSteps) -> None:
    """No screen has accessibility violations or is wider than the window, and the documentation has
    the report. Keeps screenshots."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    found: dict[str, list[Any]] = {}
    counts: dict[str, dict[str, int]] = {}
    page = ada.go("/")
    camera = _Camera(page)
    for name, path in _screens(story).items():
        ada.turn_to(path)
        _settle(page)
        found[name] = ["wider than the window"] if _wider(page) else []
        # The frame around the content is the same on all pages, so check it once.
        part = None if path == "/" else "main"
        for theme in THEMES:
            page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
            camera.take(ARTEFACTS / f"{name}-{theme}.png")
            # Themes differ only in their colours.
            rules = None if theme == THEMES[0] else ["color-contrast"]
            found[f"{name} {theme}"] = _violations(page, rules, part)
            counts.setdefault(name, {})[theme] = len(found[f"{name} {theme}"])
    assert {name: what for name, what in found.items() if what} == {}
    report = _report(counts)
    (ARTEFACTS / "axe.md").write_text(report + "\n")
    assert report in (ROOT / "docs" / "reference" / "console.md").read_text(), (
        "docs lack artifacts/console/axe.md"
    )


def test_pages_fit_a_phone(ada: Desk, story: DemoSteps) -> None:
    """An approval, the fleet, a service and a list fit a phone."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page = ada.page
    page.set_viewport_size(PHONE)
    service = f"/services/{story.services['dev']}"
    ada.go("/access")
    pages = {"pipelines": "/pipelines", "fleet": "/", "service": service}
    for name, path in {**pages, "repositories": "/repositories"}.items():
        ada.turn_to(path)
        _settle(page)
        page.screenshot(path=ARTEFACTS / f"{name}-phone.png")
        assert not _wider(page), name


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


def test_a_release_is_approved_on_a_phone(ada: Desk, story: DemoSteps) -> None:
    """The link of a notification leads to a decision with large touch targets."""
    commit(story, shop("3.0"), "Release 3.0")
    edge = story.waiting_edge()
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
    assert not _wider(page)
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


def test_overlays_are_accessible(stranger: Desk, story: DemoSteps) -> None:
    """Toasts, command palette, shortcuts, confirmation and sign-in dialogs are accessible."""
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    page = stranger.go(f"/services/{story.services['dev']}?tab=settings")
    stranger.sign_in()
    _settle(page)
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
            found[f"{name} {theme}"] = _violations(page, part=part)
        page.keyboard.press("Escape")
    assert {name: what for name, what in found.items() if what} == {}


def test_an_action_shows_its_effect_first(ada: Desk, story: DemoSteps) -> None:
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
        assert _violations(page, part="dialog[open]") == []
    page.set_viewport_size(PHONE)
    camera.take(ARTEFACTS / "above-action-phone.png")
    assert not _wider(page)
    dialog.get_by_role("button", name="Create global service").click()
    expect(page.get_by_role("link", name="monitoring")).to_be_visible()


@pytest.mark.parametrize("theme", THEMES)
def test_signing_in_is_for_everybody(stranger: Desk, theme: str) -> None:
    ARTEFACTS.mkdir(parents=True, exist_ok=True)
    stranger.page.emulate_media(color_scheme="dark" if theme == "dark" else "light")
    page = stranger.go("/")
    page.get_by_label("Password").wait_for()
    page.screenshot(path=ARTEFACTS / f"login-{theme}.png")
    assert _violations(page) == []


def test_the_fleet_page_is_small() -> None:
    """The scripts of the first page are small when compressed."""
    index = BUILT / "index.html"
    if not index.exists():
        pytest.skip("the console is not built: make console")
    first = re.findall(r'(?:src|href)="/(assets/[^"]+\.js)"', index.read_text())
    assert first
    total = sum(len(gzip.compress((BUILT / name).read_bytes())) for name in first)
    assert total <= MOST_SCRIPT_BYTES, first
