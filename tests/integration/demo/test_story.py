"""The demo's story, played as a user plays it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = [sys.executable, "-c", "from towline.cli import main; main()"]
STEPS = 7


@pytest.mark.timeout(300)
def test_the_whole_story_comes_true(kubernetes: Path) -> None:
    """Commit, approval, healing, outage, kubectl and pruning, each asserted on the clusters."""
    done = subprocess.run(
        [*PROGRAM, "demo", "--check"], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("✓") == STEPS
    assert "all steps passed" in done.stderr


def test_a_step_that_does_not_come_true_is_named(kubernetes: Path, tmp_path: Path) -> None:
    """Clusters that are given and do not answer end the demo with what cannot be reached."""
    given = tmp_path / "kubeconfig"
    given.write_text(
        """
apiVersion: v1
kind: Config
users: [{name: nobody, user: {token: none}}]
clusters: [{name: dead, cluster: {server: "https://127.0.0.1:1"}}]
contexts:
- {name: one, context: {cluster: dead, user: nobody}}
- {name: two, context: {cluster: dead, user: nobody}}
"""
    )
    environment = {**os.environ, "DEMO_KUBECONFIG": str(given)}
    environment["PATH"] = f"{kubernetes}{os.pathsep}{environment['PATH']}"
    done = subprocess.run(
        [*PROGRAM, "demo", "--check"], capture_output=True, text=True, env=environment
    )
    assert done.returncode != 0
    assert "127.0.0.1:1" in done.stderr and "Traceback" not in done.stderr
