"""The console over HTTP/2, which browsers choose where TLS offers it."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.integration.console.conftest import PATIENCE, SCREEN, sign_in
from tests.planes import needs_native
from towline.demo.environment import DemoEnvironment
from towline.demo.steps import DemoSteps

pytestmark = [pytest.mark.timeout(180), needs_native]
PROTOCOLS = """() => [...performance.getEntriesByType("navigation"),
    ...performance.getEntriesByType("resource")].map((entry) => entry.nextHopProtocol)"""
# A browser opens at most six connections of HTTP/1.1, so a seventh watch would wait.
WATCH_MANY = """async (count) => {
    const watched = "/k8s/clusters/dev/api/v1/namespaces?watch=1";
    const aborting = new AbortController();
    const options = { headers: { "X-Towline-CSRF": "console" }, signal: aborting.signal };
    const first = async () => {
        const reader = (await fetch(watched, options)).body.getReader();
        return new TextDecoder().decode((await reader.read()).value).includes('"type"');
    };
    const events = await Promise.all(Array.from({ length: count }, first));
    const listed = (await fetch("/k8s/clusters/dev/api/v1/namespaces", options)).status;
    aborting.abort();
    return [events, listed];
}"""


@pytest.fixture
def page(chromium: Browser, stage: DemoEnvironment) -> Iterator[Page]:
    """A tab of the administrator at the HTTPS address."""
    context = chromium.new_context(viewport=SCREEN, ignore_https_errors=True)
    context.set_default_timeout(PATIENCE)
    tab = context.new_page()
    tab.goto(stage.url + "/login")
    sign_in(tab)
    expect(tab.get_by_role("heading", name="Fleet")).to_be_visible()
    yield tab
    context.close()


def test_a_browser_loads_the_console_over_http2(page: Page, story: DemoSteps) -> None:
    """Page, scripts and API; live changes still arrive by a WebSocket of HTTP/1.1."""
    frames: list[str | bytes] = []
    page.on(
        "websocket",
        lambda opened: opened.on("framereceived", lambda frame: frames.append(frame)),
    )
    page.reload()
    expect(page.get_by_role("heading", name="Fleet")).to_be_visible()
    for _ in range(300):
        if frames:
            break
        page.wait_for_timeout(100)
    assert frames
    # What comes from the cache has no protocol.
    assert set(page.evaluate(PROTOCOLS)) - {""} == {"h2"}


def test_a_browser_opens_more_watches_than_connections(page: Page, stage: DemoEnvironment) -> None:
    """All on one connection, and a further request beside them."""
    events, listed = page.evaluate(WATCH_MANY, 20)
    assert (events, listed) == ([True] * 20, 200)
