"""Very large objects, logs and services stay usable."""

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest
from playwright.sync_api import Page, Route, expect

from tests.integration.console.conftest import BrowserTab
from towline.demo.steps import DemoSteps

pytestmark = pytest.mark.timeout(180)

PODS, LINES, KEPT_LINES, MEGABYTES = 5_000, 150_000, 100_000, 10


def is_quick(page: Page) -> bool:
    """Whether the page responds: it renders two animation frames."""
    return page.evaluate(
        "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame("
        "() => done(document.visibilityState === 'visible'))))"
    )


def component(story: DemoSteps, kind: str) -> str:
    known = story.stage.ask(
        "query ($id: ID!) { serviceDeployment(id: $id) { components { id kind } } }",
        id=story.services["dev"],
    )["serviceDeployment"]["components"]
    return next(one["id"] for one in known if one["kind"] == kind)


def test_an_object_of_ten_megabytes_is_shown_and_searched(
    ada: BrowserTab, story: DemoSteps
) -> None:
    """The page renders only the visible part."""
    object_ = {
        "kind": "ConfigMap",
        "data": {f"key-{n}": "x" * 1000 for n in range(MEGABYTES * 1000)},
    }

    def answer(route: Route) -> None:
        if "componentLive" not in (route.request.post_data or ""):
            route.fallback()
            return
        live = {"__typename": "ComponentLive", "id": "o", "object": object_}
        live["readAt"] = "2026-11-21T12:00:00Z"
        route.fulfill(json={"data": {"componentLive": live}})

    ada.page.route("**/gql", answer)
    page = ada.go(f"/objects/{component(story, 'Deployment')}")
    expect(page.locator(".cm-content")).to_contain_text("key-1")
    assert page.locator(".cm-line").count() < 500
    page.get_by_role("tab", name="Events").click()
    expect(page.get_by_role("tab", name="Events", selected=True)).to_be_visible()
    assert is_quick(page)


def test_a_log_of_a_hundred_thousand_lines_is_searched(ada: BrowserTab, story: DemoSteps) -> None:
    """The page keeps the newest of them, renders the visible ones, and finds a word."""
    lines = (f"2026-11-21T12:00:00.{n:09}Z line {n} of many\n" for n in range(LINES))
    body = "".join(lines)
    ada.page.route_web_socket(re.compile(r"/log\?"), lambda socket: socket.send(body.encode()))
    page = ada.go(f"/objects/{component(story, 'Pod')}?tab=logs")
    status = page.get_by_role("status").filter(has_text=re.compile("lines? of 1 pod"))
    expect(status).to_contain_text(f"{KEPT_LINES:,} lines")
    assert page.locator(".log-line").count() < 300
    page.get_by_label("Search in logs").fill("line 77777 ")
    expect(status).to_contain_text("1 line")
    expect(page.get_by_role("region", name="Log lines")).to_contain_text("line 77777 of many")


@pytest.fixture
def crowded(story: DemoSteps) -> Iterator[str]:
    """Adds 5,000 pods to the service, as if its agent had reported them."""
    service = story.services["dev"]
    path = story.stage.data / "towline.db"
    with closing(sqlite3.connect(path, timeout=60)) as store, store:
        columns = [row[1] for row in store.execute("PRAGMA table_info(components)")]
        changed = {"id": "'many-' || n", "uid": "'many-' || n", "name": "'many-' || n"}
        values = ", ".join(changed.get(name, f'pod."{name}"') for name in columns)
        names = ", ".join(f'"{name}"' for name in columns)
        store.execute(
            f"WITH RECURSIVE series(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM series "
            f"WHERE n < {PODS}) INSERT INTO components ({names}) SELECT {values} FROM series, "
            "(SELECT * FROM components WHERE service_id = ? AND kind = 'Pod' LIMIT 1) AS pod",
            (service,),
        )
    yield service
    with closing(sqlite3.connect(path, timeout=60)) as store, store:
        store.execute("DELETE FROM components WHERE id LIKE 'many-%'")


def test_a_service_of_five_thousand_pods_is_filtered(ada: BrowserTab, crowded: str) -> None:
    """The list is shortened, and the filter searches all objects."""
    page = ada.go(f"/services/{crowded}?tab=objects")
    expect(page.get_by_role("tab", name="Objects")).to_contain_text(str(PODS)[0])
    objects = page.get_by_role("region", name="Objects")
    expect(objects.get_by_role("row").nth(10)).to_be_visible()
    assert objects.get_by_role("row").count() <= 510
    page.get_by_label("Filter objects").fill("many-4999")
    expect(objects.get_by_role("link", name="many-4999")).to_be_visible()
    expect(page.get_by_text("1 shown")).to_be_visible()


def test_a_topology_of_five_thousand_pods_is_drawn(ada: BrowserTab, crowded: str) -> None:
    """Alike Pods are one node; opened, only those near the window are elements."""
    page = ada.go(f"/services/{crowded}?tab=topology")
    page.get_by_role("button", name=re.compile(r"^Show 500\d objects")).click()
    page.get_by_label("Filter objects").fill("many-4999")
    expect(page.get_by_text("1 shown")).to_be_visible()
    assert 0 < page.locator(".topology-node").count() < 300
    page.get_by_role("button", name="Fit").click()
    expect(page.locator(".topology-node")).to_have_count(0)
    assert is_quick(page)
