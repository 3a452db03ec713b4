"""The watch over canaries finds what it is there to find."""

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
import asyncio, logging, strawberry
from controlplane.graphql.schema import Schema
from controlplane.notify.outward import GuardedOutward

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
    away = GuardedOutward()
    try:
        asyncio.run(away.ask("POST", "https://127.0.0.1:9/", {{}}, VALUE.encode()))
    except Exception:
        pass
def test_it_keeps(tmp_path): (tmp_path / "given.txt").write_text(VALUE)
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
    assert sorted(set(failed)) == ["answers", "logs", "prints", "sends", "writes"], found
    assert found.count("secret values came out") >= 5


def test_canaries_are_found_in_any_bytes(tmp_path: Path) -> None:
    assert canaries_in(b"\0" + VALUE.encode() + b"\xff") == ["canary-" + "00ff-of"]
    assert canaries_in(b"a canary") == []
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "x.db-wal").write_bytes(VALUE.encode())
    assert len(list(leaking_files(tmp_path))) == 1
