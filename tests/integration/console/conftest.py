"""Fixtures for browser tests of the console with a real control plane, agents and clusters."""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Page,
    ViewportSize,
    expect,
    sync_playwright,
)

from tests.integration.console.keys import Keys
from tests.migrated import put_sqlite
from towline.demo.environment import DemoEnvironment
from towline.demo.steps import DemoSteps

ROOT = Path(__file__).parents[3]
BUILT = ROOT / "console" / "dist"
AXE = ROOT / "console" / "node_modules" / "axe-core" / "axe.min.js"
ARTEFACTS = ROOT / "artifacts" / "console"
EMAIL, PASSWORD = "ada@example.org", "correct-horse-battery"
PUBLIC_HOST = "towline.example.org"
"""Name of this machine for the browser alone, as behind a reverse proxy."""
PATIENCE = 30_000
SCREEN: ViewportSize = {"width": 1440, "height": 900}
expect.set_options(timeout=PATIENCE)
# The headless shell does the same for half of the CPU time.
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")
# Messages of the browser about responses that a test provokes.
_EXPECTED = re.compile(r"Failed to load resource|WebSocket connection")


def browser_program() -> str:
    """Returns the path of the browser. Skips if it or the built console is missing; fails in CI."""
    found = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if found is None:
        pytest.skip("chromium is not installed")
    if not (BUILT / "index.html").exists():
        pytest.skip("the console is not built: make console")
    return found


def commit(story: DemoSteps, files: dict[str, str | bytes | None], message: str) -> str:
    """Commits files and triggers a fetch, like a webhook; returns the SHA."""
    sha = story.stage.repository.commit(files, message)
    known = story.stage.ask("{ gitRepositories { edges { node { id } } } }")
    story.stage.ask(
        "mutation ($id: ID!) { syncGitRepository(id: $id) { id } }",
        id=known["gitRepositories"]["edges"][0]["node"]["id"],
    )
    return sha


def viewer(story: DemoSteps, name: str) -> str:
    """Creates a service account with the role viewer and returns its token."""
    ask = story.stage.ask
    account = ask(
        """mutation ($name: String!) {
          createServiceAccount(attributes: {name: $name}) { id email } }""",
        name=name,
    )
    made = account["createServiceAccount"]
    ask(
        "mutation ($email: String!) { createRoleBinding(attributes: "
        '{role: "viewer", scope: "installation", user: $email}) { id } }',
        email=made["email"],
    )
    return ask(
        "mutation ($id: ID!) { createServiceAccountToken("
        'id: $id, attributes: {name: "browser"}) { token } }',
        id=made["id"],
    )["createServiceAccountToken"]["token"]


def sign_in(page: Page, email: str = EMAIL, password: str = PASSWORD) -> None:
    """Fills in the sign-in form of the console or of the sign-in page."""
    page.get_by_label("E-mail").fill(email)
    page.get_by_label("Password").fill(password)
    page.keyboard.press("Enter")


def setup_link(url: str, data: Path) -> str:
    """The setup link of a data directory at this URL."""
    _, path, token = (data / "setup.url").read_text().strip().partition("/setup")
    return url + path + token


def open_setup(page: Page, url: str, data: Path) -> None:
    """Opens the setup link of a data directory at this URL."""
    page.goto(setup_link(url, data))


def set_up(page: Page, url: str, data: Path) -> None:
    """Opens the setup link of a data directory, and becomes the administrator. Keyboard only."""
    open_setup(page, url, data)
    keys = Keys(page)
    keys.write(page.get_by_label("E-mail"), EMAIL)
    keys.write(page.get_by_label("Name"), "Ada Lovelace")
    keys.write(page.get_by_label("Password"), PASSWORD)
    keys.use(page.get_by_role("button", name="Set up"))
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()


@dataclass
class BrowserTab:
    """Browser tab of a user; records errors of the page."""

    stage: DemoEnvironment
    page: Page
    complaints: list[str] = field(default_factory=list)

    @property
    def base(self) -> str:
        return self.stage.http_url

    def listen(self) -> None:
        self.page.on("pageerror", lambda error: self.complaints.append(error.stack or str(error)))
        self.page.on("console", self._note)
        self.page.on("dialog", lambda dialog: self.complaints.append(f"dialog {dialog.message}"))
        self.page.on("request", lambda request: self._check_address(request.url))

    def go(self, path: str) -> Page:
        self.page.goto(self.base + path)
        return self.page

    def turn_to(self, path: str) -> Page:
        """Navigates without a reload, like a link."""
        self.page.evaluate("(path) => history.pushState(null, '', path)", path)
        return self.page

    def sign_in(self, email: str = EMAIL, password: str = PASSWORD) -> None:
        sign_in(self.page, email, password)

    def _note(self, message: ConsoleMessage) -> None:
        if message.type == "error" and not _EXPECTED.search(message.text):
            self.complaints.append(message.text)

    def _check_address(self, url: str) -> None:
        if not url.startswith((self.base, "data:", "blob:")):
            self.complaints.append(f"asked {url}")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    """Starts a browser, which ends behind the last test of its group."""
    program = browser_program()
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", f"--host-resolver-rules=MAP {PUBLIC_HOST} 127.0.0.1"]
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def stage(kubernetes: Path, chromium: Browser) -> Iterator[DemoEnvironment]:
    """Starts a demo stage: two clusters with agents, and an administrator with a password."""
    with DemoEnvironment(lambda _: None) as made:
        put_sqlite(made.data)
        made.start()
        page = chromium.new_page()
        set_up(page, made.http_url, made.data)
        page.close()
        yield made


@pytest.fixture(scope="session")
def story(stage: DemoEnvironment) -> DemoSteps:
    """Deploys the shop: healthy in dev, with a release that waits for prod."""
    begun = DemoSteps.begin(stage, lambda _: None)
    begun.wait_healthy("dev")
    begun.waiting_edge()
    return begun


@pytest.fixture(scope="module")
def signed_in(chromium: Browser, stage: DemoEnvironment) -> Iterator[BrowserContext]:
    """Browser context with the administrator's session."""
    context = chromium.new_context(viewport=SCREEN)
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(stage.http_url + "/login")
    sign_in(page)
    page.get_by_role("heading", name="Fleet").wait_for()
    page.close()
    yield context
    context.close()


@pytest.fixture
def stranger(chromium: Browser, stage: DemoEnvironment) -> Iterator[BrowserTab]:
    """Browser tab without a session."""
    context = chromium.new_context(viewport=SCREEN)
    context.set_default_timeout(PATIENCE)
    yield from _watched(context, stage)
    context.close()


@pytest.fixture
def ada(signed_in: BrowserContext, stage: DemoEnvironment) -> Iterator[BrowserTab]:
    """Browser tab of the administrator."""
    yield from _watched(signed_in, stage)


def _watched(context: BrowserContext, stage: DemoEnvironment) -> Iterator[BrowserTab]:
    """Yields a tab and then checks that the page had no errors and no policy violations."""
    tab = BrowserTab(stage, context.new_page())
    tab.listen()
    yield tab
    tab.page.close()
    assert tab.complaints == []
