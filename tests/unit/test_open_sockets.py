"""The watch over open sockets."""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
TESTS = """
import asyncio
import pytest

async def connect(serve):
    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
    server.close()
    writer.close()
    await asyncio.sleep(0.05)

def test_closes_its_sockets():
    asyncio.run(connect(lambda reader, writer: writer.close()))

def test_leaves_a_socket_open():
    asyncio.run(connect(lambda reader, writer: None))

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
    assert "unclosed transport" in done.stdout
