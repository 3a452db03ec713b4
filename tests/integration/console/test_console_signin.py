"""Sign-in through an identity provider in the browser, with real redirects and a real issuer."""

import asyncio
import re
import subprocess
import sys
import threading
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from playwright.sync_api import Browser, expect

from core.runtime.clock import SystemClock
from tests.fakes.clock import FakeClock
from tests.fakes.issuer import CLIENT, FakeIssuer
from tests.integration.console.conftest import PATIENCE
from tests.migrated import put_sqlite
from towline.demo.environment import wait_until
from towline.demo.ports import free_ports

pytestmark = pytest.mark.timeout(180)

_SERVE = [sys.executable, "-c", "from towline.cli import main; main()", "serve"]
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


@pytest.fixture
def federated(tmp_path: Path) -> Iterator[str]:
    """Starts a control plane with an identity provider and returns its URL."""
    https, http, agents = free_ports(3)
    put_sqlite(tmp_path / "data")
    command = [*_SERVE, "--data", str(tmp_path / "data"), "--config", str(tmp_path / "settings")]
    command += ["--listen", f"127.0.0.1:{https}", "--listen-http", f"127.0.0.1:{http}"]
    command += ["--listen-agents", f"127.0.0.1:{agents}", "--listen-metrics", "off"]
    base = f"http://127.0.0.1:{http}"

    def is_ready() -> bool:
        try:
            with urlopen(base + "/readyz", timeout=5) as answer:
                return answer.status == 200
        except OSError:
            return False

    with issuing() as issuer, (tmp_path / "log").open("wb") as log:
        (tmp_path / "settings").write_text(_SETTINGS.format(issuer=issuer.url, client=CLIENT))
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            wait_until("the control plane", is_ready, 60)
            yield base
        finally:
            process.terminate()
            process.wait()


def test_who_comes_by_the_identity_provider_lands_where_they_wanted_to(
    chromium: Browser, federated: str
) -> None:
    """One click without a password opens the requested page."""
    context = chromium.new_context()
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.goto(federated + "/services?status=FAILED")
    page.get_by_role("link", name="Sign in with Corp").press("Enter")
    expect(page.get_by_role("heading", name="Services")).to_be_visible()
    expect(page).to_have_url(re.compile(r"/services\?status=FAILED$"))
    expect(page.get_by_title("ada@example.org")).to_be_visible()
    context.close()
