"""The watch over canaries finds what it is there to find."""

import base64
import re
import subprocess
import sys
from pathlib import Path

from tests.canary import canaries_in, leaking_files

ROOT = Path(__file__).parents[2]
# In pieces: else these would be leaks of this very test.
VALUE = "canary-" + "00ff-of-the-watch"
CONFTEST = """
from tests.canary import CanaryWatch

def pytest_configure(config):
    config.pluginmanager.register(CanaryWatch())
"""
TESTS = f"""
import asyncio, base64, logging, strawberry, tarfile
from controlplane.api.schema import Schema
from controlplane.http.app import SecurityHeaders
from controlplane.platform.outbound.outbound import GuardedSender

VALUE = {VALUE!r}

@strawberry.type
class Query:
    @strawberry.field
    def x(self) -> str: return VALUE

def test_it_prints(): print(VALUE)
def test_it_logs(): logging.getLogger("x").warning(VALUE)
def test_it_writes(tmp_path): (tmp_path / "state.db").write_text(VALUE)
def test_it_answers(): assert asyncio.run(Schema(query=Query).execute("{{ x }}")).data
def test_it_sends():
    away = GuardedSender()
    try:
        asyncio.run(away.request("POST", "https://127.0.0.1:9/", {{}}, VALUE.encode()))
    except Exception:
        pass
def test_it_encodes(tmp_path):
    (tmp_path / "state.json").write_bytes(b"x" + base64.b64encode(b"ab" + VALUE.encode()))
def test_it_packs(tmp_path):
    (tmp_path / "given.txt").write_text(VALUE)
    with tarfile.open(tmp_path / "support.tar.gz", "w:gz") as archive:
        archive.add(tmp_path / "given.txt")
def test_it_keeps(tmp_path): (tmp_path / "given.txt").write_text(VALUE)

async def says(send, *bodies):
    async def app(scope, receive, send):
        await send({{"type": "http.response.start", "status": 200, "headers": []}})
        for body in bodies:
            await send({{"type": "http.response.body", "body": body, "more_body": True}})
    await SecurityHeaders(app)({{"type": "http", "path": "/scim/v2/Users"}}, None, send)

def test_it_tells_by_http():
    async def send(message): pass
    asyncio.run(says(send, VALUE[:9].encode(), VALUE[9:].encode()))
"""


def test_a_test_that_lets_a_canary_out_fails(tmp_path: Path) -> None:
    """However it passes otherwise; what it writes down itself it says so."""
    (tmp_path / "conftest.py").write_text(CONFTEST)
    (tmp_path / "test_leak.py").write_text(TESTS)
    argv = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", "."]
    argv += ["-rA", "--basetemp", str(tmp_path / "temp"), "test_leak.py"]
    found = subprocess.run(
        argv,
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    ).stdout
    failed = re.findall(r"^(?:FAILED|ERROR) test_leak.py::test_it_(\w+)", found, re.MULTILINE)
    expected = ["answers", "encodes", "logs", "packs", "prints", "sends", "tells_by_http", "writes"]
    assert sorted(set(failed)) == expected, found
    assert found.count("secret values came out") >= len(expected)


def test_canaries_are_found_in_any_bytes(tmp_path: Path) -> None:
    """In base64 too, wherever they begin; what only looks like it is none."""
    for before in (b"", b"a", b"ab", b"abc"):
        for around in (b"", b'"'):
            data = around + base64.b64encode(before + VALUE.encode() + b"-and-more") + around
            assert canaries_in(data) == ["canary-" + "00ff-of"]
    assert canaries_in(base64.b64encode(b"canary-cluster")) == []
    assert canaries_in(b"\0" + VALUE.encode() + b"\xff") == ["canary-" + "00ff-of"]
    assert canaries_in(b"a canary") == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.db-wal").write_bytes(VALUE.encode())
    assert len(list(leaking_files(tmp_path))) == 1
