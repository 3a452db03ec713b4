"""Sign-in in the browser: forms, devices and identity providers, at every kind of address.

No test sets a header of the browser: what it sends by itself has to suffice.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, BrowserContext, Route, expect

from core.runtime.clock import SystemClock
from tests.fakes.clock import FakeClock
from tests.fakes.issuer import CLIENT, FakeIssuer
from tests.integration.console.conftest import (
    EMAIL,
    PASSWORD,
    PATIENCE,
    PUBLIC_HOST,
    ROOT,
    set_up,
    setup_link,
    sign_in,
)
from tests.integration.console.reader import ScreenReader
from tests.migrated import put_sqlite
from towline.demo.environment import wait_until
from towline.demo.ports import free_ports

pytestmark = pytest.mark.timeout(180)

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]
VITE = ROOT / "console" / "node_modules" / ".bin" / "vite"
_POST_TO_A_CLUSTER = """async () => (await fetch("/k8s/clusters/none/api/v1/namespaces", {
    method: "POST", headers: { "X-Towline-CSRF": "console" } })).status"""
_FORMS = {
    "/setup": {"token": "x", "email": EMAIL, "password": PASSWORD},
    "/oauth/session": {"email": EMAIL, "password": PASSWORD},
    "/oauth/device/decision": {"code": "BCDFGHJK", "approve": "yes"},
}
_SETTINGS = """[[auth.oidc]]
name = "corp"
title = "Corp"
issuer = "{issuer}"
client_id = "{client}"
client_secret = "not-a-secret"
"""


@contextmanager
def issuing() -> Generator[FakeIssuer]:
    """Runs an identity provider in its own thread."""
    issuer = FakeIssuer(FakeClock(SystemClock().now()))
    ready, stop = threading.Event(), asyncio.Event()
    loops: list[asyncio.AbstractEventLoop] = []

    async def serve() -> None:
        loops.append(asyncio.get_running_loop())
        async with issuer.serve():
            ready.set()
            await stop.wait()

    # `asyncio.run` also closes the connections that were accepted at the end.
    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert ready.wait(30)
    try:
        yield issuer
    finally:
        loops[0].call_soon_threadsafe(stop.set)
        thread.join(30)


@contextmanager
def serving(folder: Path, https: int, http: int, settings: str = "") -> Generator[Path]:
    """Runs `towline serve` as the quickstart does, and yields its data directory."""
    data = folder / "data"
    put_sqlite(data)
    (folder / "settings").write_text(settings)
    command = [*PROGRAM, "serve", "--data", str(data), "--config", str(folder / "settings")]
    command += ["--listen", f"127.0.0.1:{https}", "--listen-http", f"127.0.0.1:{http}"]
    command += ["--listen-agents", f"127.0.0.1:{free_ports(1)[0]}", "--listen-metrics", "off"]
    ready = partial(answers, f"http://127.0.0.1:{http}/readyz")
    with running(command, ready, folder / "serve.log"):
        yield data


def answers(url: str) -> bool:
    """True if a server answers a request without TLS."""
    try:
        with urlopen(url, timeout=5) as answer:
            return answer.status == 200
    except OSError:
        return False


def has_address(log: Path) -> bool:
    """True if Vite has logged its address: it listens.

    No request over TLS: Python's leaks its socket if a server resets the connection before the
    handshake. No connection either: Vite tries its port, and closes it again, before it listens.
    """
    return "Local" in log.read_text()


@contextmanager
def running(
    command: list[str], is_ready: Callable[[], bool], log: Path, cwd: Path | None = None
) -> Generator[None]:
    """Runs a server until it is ready, and ends it afterwards."""
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=cwd)
        try:
            wait_until(command[0], is_ready, 60)
            yield
        finally:
            process.terminate()
            process.wait()


@dataclass(frozen=True)
class Installation:
    """A control plane after its first start.

    `url` is its address in the browser, `direct` its address for programs on this machine.
    """

    url: str
    direct: str
    data: Path


@pytest.fixture(params=["http", "https", "proxied http", "proxied https"])
def installation(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Installation]:
    """A control plane at an address of its own, or behind a reverse proxy with another name."""
    scheme = request.param.removeprefix("proxied ")
    https, http, front = free_ports(3)
    direct = f"{scheme}://127.0.0.1:{https if scheme == 'https' else http}"
    with ExitStack() as started:
        if request.param == scheme:
            data = started.enter_context(serving(tmp_path, https, http))
            yield Installation(direct, direct, data)
        else:
            url = f"{scheme}://{PUBLIC_HOST}:{front}"
            settings = f'[auth]\npublic_url = "{url}"\n'
            data = started.enter_context(serving(tmp_path, https, http, settings))
            tls = data / "tls" if scheme == "https" else None
            started.enter_context(reverse_proxy(tmp_path, front, f"http://127.0.0.1:{http}", tls))
            yield Installation(url, direct, data)


@contextmanager
def reverse_proxy(folder: Path, port: int, target: str, tls: Path | None) -> Generator[None]:
    """Runs Vite's server as a reverse proxy that sends the target's own name as Host."""
    given: dict[str, object] = {"host": "127.0.0.1", "port": port, "allowedHosts": True}
    given["proxy"] = {"/": {"target": target, "changeOrigin": True, "ws": True}}
    if tls is not None:
        pair = {"cert": tls / "server.crt", "key": tls / "server.key"}
        given["https"] = {name: path.read_text() for name, path in pair.items()}
    config = folder / "vite.config.mjs"
    config.write_text(f"export default {json.dumps({'preview': given})};\n")
    command = [str(VITE), "preview", "--strictPort", "--config", str(config)]
    log = folder / "proxy.log"
    with running(command, partial(has_address, log), log, cwd=ROOT / "console"):
        yield


@pytest.fixture
def browser(chromium: Browser) -> Iterator[BrowserContext]:
    """A browser of a user who has accepted the certificate of a new installation."""
    context = chromium.new_context(ignore_https_errors=True)
    context.set_default_timeout(PATIENCE)
    yield context
    context.close()


@pytest.fixture
def federated(tmp_path: Path) -> Iterator[str]:
    """Starts a control plane with an identity provider and returns its URL."""
    https, http = free_ports(2)
    with issuing() as issuer:
        settings = _SETTINGS.format(issuer=issuer.url, client=CLIENT)
        with serving(tmp_path, https, http, settings):
            yield f"http://127.0.0.1:{http}"


def test_the_first_administrator_signs_in_and_out(
    browser: BrowserContext, installation: Installation
) -> None:
    """The setup link, both sign-in forms, sign-out, and requests of scripts and WebSockets."""
    page = browser.new_page()
    set_up(page, installation.url, installation.data)
    # The fleet comes by a WebSocket.
    expect(page.get_by_role("heading", name="No clusters yet")).to_be_visible()
    assert page.evaluate(_POST_TO_A_CLUSTER) == 404
    page.goto(installation.url + "/access?tab=sessions")
    page.get_by_role("button", name="Sign out", exact=True).click()
    sign_in(page)
    expect(page.get_by_role("link", name="Fleet", exact=True)).to_be_visible()
    page.goto(installation.url + "/access?tab=sessions")
    page.get_by_role("button", name="Sign out", exact=True).click()
    expect(page.get_by_label("Password")).to_be_visible()
    page.goto(installation.url + "/login?back=/clusters")
    sign_in(page, password="not-the-password-1")
    expect(page.get_by_text("wrong address or password")).to_be_visible()
    page.goto(installation.url + "/login?back=/clusters")
    sign_in(page)
    expect(page.get_by_role("heading", name="Clusters", exact=True)).to_be_visible()


def test_a_device_is_approved_or_denied(
    browser: BrowserContext, installation: Installation, tmp_path: Path
) -> None:
    """`towline login --device`: its page leads through the sign-in, back to the decision."""
    page = browser.new_page()
    set_up(page, installation.url, installation.data)
    browser.clear_cookies()
    command = [*PROGRAM, "login", installation.direct, "--device"]
    command += ["--ca-file", str(installation.data / "tls" / "ca.crt")]
    environment = {**os.environ, "TOWLINE_CONFIG": str(tmp_path / "config.toml")}
    for button, answer, said in (
        ("Approve", "The device is connected", f"as {EMAIL}"),
        ("Deny", "The device was denied", "the request was denied"),
    ):
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        ) as login:
            assert login.stdout is not None
            shown = re.search(r"open (\S+) .* the code (\S+)", login.stdout.readline())
            assert shown is not None and shown[1].startswith(installation.url + "/")
            page.goto(shown[1])
            if button == "Approve":
                sign_in(page)
            expect(page.get_by_text(shown[2])).to_be_visible()
            page.get_by_role("button", name=button).click()
            expect(page.get_by_text(answer)).to_be_visible()
            assert said in login.stdout.read()


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Installation]:
    """A control plane at an address of its own."""
    https, http = free_ports(2)
    with serving(tmp_path, https, http) as data:
        yield Installation(f"http://127.0.0.1:{http}", f"http://127.0.0.1:{http}", data)


def test_an_installation_is_set_up_by_screen_reader(
    browser: BrowserContext, started: Installation
) -> None:
    """From the setup link to the first cluster, by roles, names and announcements."""
    reader = ScreenReader(browser.new_page())
    reader.open(setup_link(started.url, started.data))
    assert reader.headings() == ["Set up"] and reader.nameless() == []
    reader.write("textbox", "E-mail", EMAIL)
    reader.write("textbox", "Name", "Ada Lovelace")
    reader.write("textbox", "Password", PASSWORD)
    reader.use("button", "Set up")
    reader.find("heading", "No clusters yet")
    reader.hears("Fleet")
    reader.forget()
    reader.use("link", "Register cluster")
    reader.hears("Register cluster")
    assert reader.nameless() == []
    reader.write("textbox", "Name", "eu-1")
    reader.use("button", "Register cluster")
    reader.find("heading", "eu-1 Waiting for agent")
    reader.hears("Waiting for agent")
    assert reader.nameless() == []


def test_forms_of_foreign_pages_are_refused(browser: BrowserContext, started: Installation) -> None:
    """A foreign page cannot sign a user in, nor approve a device for a user who is signed in.

    The page may have another name, another port of this machine, or hide its origin.
    """
    page = browser.new_page()
    set_up(page, started.url, started.data)
    for address, policy in (
        ("http://evil.example.org/", "unsafe-url"),
        ("http://evil.example.org/", "no-referrer"),
        ("http://127.0.0.1:1/", "unsafe-url"),
        ("http://127.0.0.1:1/", "no-referrer"),
    ):
        for path, fields in _FORMS.items():
            inputs = "".join(f"<input name={name} value={text}>" for name, text in fields.items())
            form = f"<form method=post action={started.url}{path}>{inputs}<button>Go</button>"
            body = f"<meta name=referrer content={policy}>{form}"
            browser.route(address, partial(_show, body=body))
            page.goto(address)
            with page.expect_response(started.url + path) as refused:
                page.get_by_role("button").click()
            assert refused.value.status == 403


def _show(route: Route, *, body: str) -> None:
    route.fulfill(body=body, content_type="text/html")


def test_single_sign_on_returns_to_the_requested_page(chromium: Browser, federated: str) -> None:
    """One click without a password opens the requested page."""
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(federated + "/services?status=FAILED")
    page.get_by_role("link", name="Sign in with Corp").press("Enter")
    expect(page.get_by_role("heading", name="Services", exact=True)).to_be_visible()
    expect(page).to_have_url(re.compile(r"/services\?status=FAILED$"))
    expect(page.get_by_title("ada@example.org")).to_be_visible()
    context.close()
