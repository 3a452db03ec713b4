"""The watch over open sockets."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import socket

def in_a_cycle():
    made = [socket.socket()]
    made.append(made)
    return made[0]

def test_closes_its_sockets():
    in_a_cycle().close()

def test_leaves_a_socket_open():
    in_a_cycle()

def test_opens_no_socket(): ...
"""


def test_a_test_that_leaves_a_socket_open_fails(tmp_path: Path) -> None:
    """And no other one, although nobody collected the garbage."""
    (tmp_path / "test_sockets.py").write_text(TESTS)
    options = ["-q", "-p", "tests.conftest", "-c", "/dev/null"]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, tmp_path],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"XDG_CACHE_HOME": "/nowhere"},
    )
    assert "3 passed, 1 error" in done.stdout, done.stdout
    assert "ERROR at teardown of test_leaves_a_socket_open" in done.stdout
    assert "unclosed <socket" in done.stdout
