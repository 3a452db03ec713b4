"""Measures the console in a browser: `python -m bench.console`; BENCH_SCALE=33 for 3,000 services.

One SQLite store has 1,000 clusters with 100,000 services, one of them with 2,000 objects; control
plane and headless Chromium run on the same machine. Times come from the browser's clock, and so
measure what users see. The browser is signed in, with an empty cache.
"""

import asyncio
import json
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from playwright.sync_api import (
    Browser,
    BrowserContext,
    CDPSession,
    Page,
    WebSocketRoute,
    sync_playwright,
)

from bench.api import CLUSTERS, SERVICES, fill
from bench.report import BenchReport
from controlplane.platform.store.engine import make_engine, sqlite_url
from core.errors import Unavailable
from core.json_object import JsonObject
from core.spec.bundle import make_bundle
from gitcache.store.files import FileContent
from towline.client import GraphQLClient
from towline.contexts import ControlPlaneTarget
from towline.demo.environment import wait_until
from towline.demo.ports import free_ports
from towline.serve.console import console_folder

OPENINGS, FILTERS, CHANGES = 5, 8, 12
HALF_AN_HOUR = 1_800
"""Number of changes that the map shows in half an hour, at one per second."""
BUSY_SERVICE = "s1000001"
"""Service of 2,000 objects, all of which its topology shows."""
APPLICATIONS = 400
"""Number of its Deployments; each has a Service, a ReplicaSet and two Pods."""
_MODEL = "SELECT * FROM components WHERE id = 'model'"
# Kinds of the objects of an application, and the place of each one's owner among them.
_KINDS = (
    ("", "Service", None),
    ("apps", "Deployment", None),
    ("apps", "ReplicaSet", 1),
    ("", "Pod", 2),
    ("", "Pod", 2),
)
_BATCH = 60
_PATIENCE = 60_000
_BROWSERS = ("chromium", "chromium-browser", "google-chrome")
_SERVE = [sys.executable, "-c", "from towline.cli import main; main()", "serve"]
_TOTAL = ".summary strong"
# Resolves with the time when a condition becomes true, one frame later.
_WHEN = """(holds) => new Promise((done) => {
  const look = () => requestAnimationFrame(() => holds() ? done(performance.now()) : look());
  look();
})"""
_MAP_IS_THERE = f"""() => ({_WHEN})(() => document.querySelector("{_TOTAL}") !== null
  && (document.querySelector("canvas")?.style.height ?? "") !== "")"""
_FRAME_IS_THERE = f'() => ({_WHEN})(() => document.querySelector("main h1") !== null)'
_ANSWER = f"""(before) => {{
  const begun = performance.now();
  return {{ time: ({_WHEN})(() => document.querySelector("{_TOTAL}")?.textContent !== before)
    .then((end) => end - begun) }};
}}"""
_ASKED = """async (q) => {
  const query = `query ($q: String) { fleetMap(filter: {q: $q}) {
    rows { id handle name projectId pingedAt services tags { name value } } } }`;
  const headers = {"Content-Type": "application/json", "X-Towline-CSRF": "console"};
  const begun = performance.now();
  const body = JSON.stringify({query, variables: {q}});
  await (await fetch("/gql", {method: "POST", headers, body})).json();
  return performance.now() - begun;
}"""
_IDLE = """() => new Promise((done) => requestAnimationFrame(() => setTimeout(
  () => requestIdleCallback(() => requestIdleCallback(done)), 500)))"""
_LONG_TASKS = """() => { window.tasks = []; new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) window.tasks.push(duration);
}).observe({type: "longtask"}); }"""
_TOPOLOGY = f"/services/{BUSY_SERVICE}?tab=topology"
_OPEN_TOPOLOGY = f"""() => {{
  const begun = performance.now();
  history.pushState(null, "", "{_TOPOLOGY}");
  return ({_WHEN})(() => document.querySelector(".topology-node") !== null)
    .then((end) => end - begun);
}}"""
_WATCH_FRAMES = """() => { window.frames_at = []; const note = (at) => {
  window.frames_at.push(at); requestAnimationFrame(note);
}; requestAnimationFrame(note); }"""
_SCRIPT_BYTES = """() => performance.getEntriesByType("resource")
  .filter(({ name }) => name.endsWith(".js"))
  .reduce((sum, { encodedBodySize }) => sum + encodedBodySize, 0)"""


class ServedControlPlane:
    """Control plane with a store of many services."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._log = folder / "serve.log"
        https, http, agents = free_ports(3)
        self.url = f"http://127.0.0.1:{http}"
        self._https = f"https://127.0.0.1:{https}"
        self._command = [*_SERVE, "--data", str(folder), "--listen", f"127.0.0.1:{https}"]
        self._command += ["--listen-http", f"127.0.0.1:{http}", "--listen-metrics", "off"]
        self._command += ["--listen-agents", f"127.0.0.1:{agents}"]

    @contextmanager
    def running(self) -> Generator[None]:
        """Runs the process; yields when it is ready."""
        with self._log.open("ab") as log:
            process = subprocess.Popen(self._command, stdout=log, stderr=log)
        try:
            wait_until("the control plane", lambda: self._is_serving(process), 60)
            yield
        finally:
            process.terminate()
            process.wait()

    @property
    def token(self) -> str:
        """Token of the administrator."""
        return (self.folder / "admin.token").read_text().strip()

    def client(self) -> GraphQLClient:
        authority = (self.folder / "tls" / "ca.crt").read_text()
        return GraphQLClient(ControlPlaneTarget(self._https, self.token, authority))

    def fill(self) -> None:
        """Creates clusters and services while the control plane is stopped."""

        async def filled() -> None:
            engine = make_engine(sqlite_url(self.folder))
            await fill(engine, objects=1_000, deployments=5_000)
            await engine.dispose()

        asyncio.run(filled())
        _add_objects(self.folder)

    def _is_serving(self, process: subprocess.Popen[bytes]) -> bool:
        if process.poll() is not None:
            raise Unavailable(f"the control plane exited:\n{self._log.read_text()[-2000:]}")
        needed = (self.folder / "tls" / "ca.crt", self.folder / "admin.token")
        if not all(file.exists() for file in needed):
            return False
        self.client().ask("{ me { id } }")
        return True


class ConsoleBrowser:
    """Console in a browser with a signed-in user."""

    def __init__(self, browser: Browser, served: ServedControlPlane) -> None:
        self._context = _context(browser, served)
        self._served = served
        self._open("/", _MAP_IS_THERE)

    def openings(self, path: str, measured_script: str) -> list[float]:
        """Milliseconds from an empty tab until an element is visible, with an empty cache."""
        return [self._open(path, measured_script) for _ in range(OPENINGS)]

    @contextmanager
    def page(self) -> Generator[Page]:
        """Opens a tab with the map, and waits until it is idle."""
        page = self._context.new_page()
        page.goto("/")
        page.evaluate(_MAP_IS_THERE)
        page.wait_for_timeout(1_500)
        yield page
        page.close()

    def _open(self, path: str, measured_script: str) -> float:
        page = self._context.new_page()
        self._context.new_cdp_session(page).send("Network.clearBrowserCache")
        page.goto(path)
        milliseconds = page.evaluate(measured_script)
        page.close()
        return milliseconds


def _context(browser: Browser, served: ServedControlPlane) -> BrowserContext:
    headers = {"Authorization": f"Bearer {served.token}"}
    context = browser.new_context(
        viewport={"width": 1440, "height": 900}, extra_http_headers=headers, base_url=served.url
    )
    context.set_default_timeout(_PATIENCE)
    return context


def _measure_filters(page: Page) -> tuple[list[float], list[float]]:
    """Milliseconds from the last keystroke to the result, and of the same query as a request."""
    shown, requested = [], []
    field = page.get_by_label("Filter services")
    for number in range(FILTERS):
        text = f"{number % 10}{number}"
        field.focus()
        answer = page.evaluate_handle(_ANSWER, page.locator(_TOTAL).first.inner_text())
        page.keyboard.insert_text(text)
        shown.append(answer.evaluate("({ time }) => time"))
        requested.append(page.evaluate(_ASKED, text))
        back = page.evaluate_handle(_ANSWER, page.locator(_TOTAL).first.inner_text())
        field.fill("")
        back.evaluate("({ time }) => time")
        page.wait_for_timeout(300)
    return shown, requested


def _measure_scrolling(page: Page) -> list[float]:
    """Long tasks in milliseconds while scrolling through the map and back."""
    page.evaluate(_LONG_TASKS)
    page.mouse.move(700, 500)
    for step in range(60):
        page.mouse.wheel(0, 400 if step < 30 else -400)
        page.wait_for_timeout(30)
    return page.evaluate("window.tasks")


def _measure_changes(page: Page, change: Callable[[int], None]) -> list[float]:
    """Milliseconds from a call that changes a service until the map shows it."""
    paused = page.locator(".summary li", has_text="Suspended").locator("strong")
    times = []
    for number in range(CHANGES):
        before = paused.inner_text()
        begun = time.perf_counter()
        change(number)
        while paused.inner_text() == before:
            page.wait_for_timeout(5)
        times.append((time.perf_counter() - begun) * 1000)
        page.wait_for_timeout(1_100)
    return times


def _make_changer(served: ServedControlPlane) -> Callable[[int], None]:
    """Returns a function that pauses or resumes a service: call n changes service n/2."""
    client = served.client()

    def change(number: int) -> None:
        client.ask(
            "mutation ($id: ID!, $paused: Boolean!) { updateServiceDeployment("
            "id: $id, attributes: {paused: $paused}) { id } }",
            id=f"s{1_000_000 + number // 2}",
            paused=number % 2 == 0,
        )

    return change


class MapStream:
    """Intercepts the map's messages to a page, and can inject more."""

    def __init__(self) -> None:
        self._route: WebSocketRoute | None = None
        self._id = ""
        self._rows: list[JsonObject] = []
        self.largest = 0

    def pass_on(self, route: WebSocketRoute) -> None:
        """Passes all messages on, and records them."""
        self._route = route
        server = route.connect_to_server()
        server.on_message(self._on_message)

    def change(self, number: int) -> None:
        """Sends the n-th message about changed services of one cluster."""
        if self._route is None:
            raise Unavailable("the page has opened no connection")
        row = self._rows[number % len(self._rows)]
        row["services"] = ("Z" if number % 2 else "H") + row["services"][1:]
        delta = {"data": {"fleetDelta": {"__typename": "FleetDelta", "gone": [], "rows": [row]}}}
        self._route.send(json.dumps({"id": self._id, "type": "next", "payload": delta}))

    def change_all(self, page: Page, count: int) -> None:
        """Sends `count` changes as fast as the page processes them."""
        for number in range(count):
            self.change(number)
            if number % _BATCH == 0:
                page.evaluate("() => new Promise((done) => requestAnimationFrame(done))")
        # Waits until the page has painted the last change and is idle.
        page.evaluate(_IDLE)

    def _on_message(self, message: str | bytes) -> None:
        self.largest = max(self.largest, len(message))
        frame = json.loads(message)
        if frame["type"] == "next" and not self._rows:
            self._id, self._rows = frame["id"], frame["payload"]["data"]["fleetDelta"]["rows"]
        if self._route is not None:
            self._route.send(message)


def _heap(session: CDPSession) -> float:
    """JavaScript heap in megabytes after a garbage collection."""
    session.send("HeapProfiler.collectGarbage")
    return session.send("Runtime.getHeapUsage")["usedSize"] / 1e6


def _measure_heap_growth(browser: Browser, served: ServedControlPlane) -> tuple[float, float, int]:
    """Heap before and after the changes of half an hour, and the largest message."""
    stream = MapStream()
    context = _context(browser, served)
    page = context.new_page()
    page.route_web_socket("**/gql", stream.pass_on)
    session = context.new_cdp_session(page)
    page.goto("/")
    page.evaluate(_MAP_IS_THERE)
    # One round through the fleet replaces each row.
    stream.change_all(page, CLUSTERS)
    before = _heap(session)
    stream.change_all(page, HALF_AN_HOUR)
    after = _heap(session)
    context.close()
    return before, after, stream.largest


def _add_objects(folder: Path) -> None:
    """Gives a service 2,000 objects, and the bundle that it has rendered."""
    bundle = make_bundle(_manifests())
    asyncio.run(FileContent(folder / "git" / "bundles", memory=0).put(bundle.digest, bundle.data))
    with closing(sqlite3.connect(folder / "towline.db")) as store, store:
        columns = [row[1] for row in store.execute("PRAGMA table_info(components)")]
        model = dict(zip(columns, store.execute(_MODEL).fetchone(), strict=True))
        model |= {"service_id": BUSY_SERVICE, "images": '["registry.example.org/web:1.25"]'}
        placeholders = ", ".join("?" * len(columns))
        for number in range(APPLICATIONS * len(_KINDS)):
            application, position = divmod(number, len(_KINDS))
            group, kind, owner = _KINDS[position]
            owner_uid = "" if owner is None else f"uid-{number - position + owner}"
            name = f"web-{application}" if owner is None else f"web-{number}"
            own = {"id": f"busy-{number}", "uid": f"uid-{number}", "owner_uid": owner_uid}
            row = {**model, **own, "name": name, "group": group, "kind": kind}
            store.execute(
                f"INSERT INTO components VALUES ({placeholders})", [row[c] for c in columns]
            )
        change = "UPDATE services SET digest = ? WHERE id = ?"
        store.execute(change, (bundle.digest, BUSY_SERVICE))


def _manifests() -> Iterator[JsonObject]:
    """Services and Deployments; each Service selects the Pods of one Deployment."""
    for number in range(APPLICATIONS):
        name, labels = f"web-{number}", {"app": f"web-{number}"}
        metadata = {"name": name, "namespace": "shop"}
        spec = {"selector": labels, "ports": [{"port": 80}]}
        yield {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": spec}
        container = {"name": "web", "image": "registry.example.org/web:1.25"}
        template = {"metadata": {"labels": labels}, "spec": {"containers": [container]}}
        spec = {"replicas": 2, "selector": {"matchLabels": labels}, "template": template}
        yield {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": metadata, "spec": spec}


@dataclass(frozen=True, slots=True)
class TopologyFigures:
    """Times in milliseconds until 2,000 objects are shown, frames a second while the pointer pans
    them, and the JavaScript heap in megabytes before and after the first one.
    """

    opened: list[float]
    frames: float
    before: float
    after: float


def _measure_topology(page: Page) -> TopologyFigures:
    """Opens the topology several times, and pans it."""
    session = page.context.new_cdp_session(page)
    before = _heap(session)
    # The console loads the scripts of a service's page two seconds after its start.
    page.wait_for_timeout(3_000)
    opened, after = [page.evaluate(_OPEN_TOPOLOGY)], _heap(session)
    while len(opened) < OPENINGS:
        page.evaluate("history.pushState(null, '', '/no/such/page')")
        page.wait_for_timeout(800)
        opened.append(page.evaluate(_OPEN_TOPOLOGY))
    page.wait_for_timeout(500)
    page.mouse.move(900, 600)
    page.mouse.down()
    page.evaluate(_WATCH_FRAMES)
    for step in range(120):
        page.mouse.move(900 - 3 * step, 600 - 2 * step)
    frames = page.evaluate("window.frames_at")
    page.mouse.up()
    rate = 1_000 * (len(frames) - 1) / (frames[-1] - frames[0])
    return TopologyFigures(opened, rate, before, after)


def measure(browser: Browser, served: ServedControlPlane, report: BenchReport) -> None:
    """Measures all figures of the fleet page."""
    console = ConsoleBrowser(browser, served)
    opened = console.openings("/", _MAP_IS_THERE)
    framed = console.openings("/no/such/page", _FRAME_IS_THERE)
    report.add("fleet page ready", opened, "ms", goal=1_500)
    report.add("fleet page, relative to its frame", opened, "ms",
               baseline="a page without content", baseline_values=framed)  # fmt: skip
    with console.page() as page:
        report.add("script of the fleet page, compressed",
                   [page.evaluate(_SCRIPT_BYTES) / 1000], "kB", goal=150)  # fmt: skip
        shown, requested = _measure_filters(page)
        report.add("filter result", shown, "ms", goal=300)
        report.add("filter result, relative to the API", shown, "ms",
                   baseline="the same map as one request", baseline_values=requested)  # fmt: skip
        tasks = _measure_scrolling(page)
        report.add("longest task while scrolling", [max(tasks, default=0.0)], "ms", goal=100)
        live = _measure_changes(page, _make_changer(served))
    p95 = statistics.quantiles(live, n=20, method="inclusive")[-1]
    report.add("change on the screen, p95", [p95], "ms", goal=1_000)
    with console.page() as page:
        topology = _measure_topology(page)
    report.add("first topology of 2,000 objects", topology.opened[:1], "ms", goal=500)
    report.add("topology of 2,000 objects", topology.opened, "ms", goal=500)
    report.add("frames while panning it", [topology.frames], "/s", goal=58, at_most=False)
    report.add("script memory with the topology", [topology.after], "MB",
               baseline="before it", baseline_values=[topology.before])  # fmt: skip
    before, after, largest = _measure_heap_growth(browser, served)
    report.add("the map as one message", [largest / 1000], "kB", goal=500)
    report.add(f"script memory after {HALF_AN_HOUR:,} changes", [after], "MB",
               baseline="before them", baseline_values=[before], goal=1.1)  # fmt: skip


def main() -> None:
    """Fills the store, serves it, runs the measurements."""
    program = next(filter(None, map(shutil.which, _BROWSERS)), None)
    if program is None:
        print("bench console: Chromium is needed on the PATH", file=sys.stderr)
        return
    if console_folder() is None:
        print("bench console: the console is not built; run `make console`", file=sys.stderr)
        return
    report = BenchReport("console")
    with tempfile.TemporaryDirectory() as name:
        served = ServedControlPlane(Path(name))
        with served.running():
            pass
        served.fill()
        with served.running(), sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
            measure(browser, served, report)
            browser.close()
    print(f"{SERVICES:,} services", file=sys.stderr)
    report.write()


if __name__ == "__main__":
    main()
