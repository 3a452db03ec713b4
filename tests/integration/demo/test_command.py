"""The developers' command keeps clusters that outlive it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.fixture
def state(kubernetes: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache of the test's own with the built programs in it."""
    monkeypatch.setenv("KUBEBUILDER_ASSETS", str(kubernetes))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "towline" / "clusters"


def command(*words: str) -> tuple[int, str, str]:
    """Exit code, output and complaint of the command."""
    done = subprocess.run(
        [sys.executable, "-m", "towline.demo.clusters", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    return done.returncode, done.stdout.strip(), done.stderr.strip()


def test_a_cluster_comes_and_goes(state: Path, kubernetes: Path) -> None:
    """Up prints a kubeconfig that works after the command has ended; down leaves nothing.

    One whose holder was killed is not listed any more, and up starts a new one in its place.
    """
    code, kubeconfig, _ = command("up", "try", "--nodes", "2")
    assert (code, kubeconfig) == (0, str(state / "try" / "kubeconfig"))
    try:
        nodes = [
            str(kubernetes / "kubectl"),
            "--kubeconfig",
            kubeconfig,
            "get",
            "nodes",
            "-o",
            "name",
        ]
        listed = subprocess.run(nodes, capture_output=True, text=True, check=True)
        assert listed.stdout.split() == ["node/try-node-0", "node/try-node-1"]
        assert command("list")[1] == kubeconfig
        assert "cluster try is already running" in command("up", "try")[2]
        os.kill(int((state / "try" / "pid").read_text()), signal.SIGKILL)
        deadline = time.monotonic() + 60
        while command("list")[1] and time.monotonic() < deadline:
            time.sleep(0.1)
        assert command("list")[1] == ""
        assert command("up", "try")[0] == 0
    finally:
        assert command("down", "try")[0] == 0
    assert not (state / "try").exists()
    assert command("list")[1] == ""


def test_stopping_an_unknown_cluster_fails(state: Path) -> None:
    """One line, exit code 1."""
    code, _, complaint = command("down", "nobody")
    assert (code, complaint) == (1, "towline.demo.clusters: could not find cluster nobody")
