"""The simulator against a real control plane, small."""

import json
import subprocess
import sys

import pytest

PATIENCE = 240
pytestmark = pytest.mark.timeout(PATIENCE + 60)

COMMAND = [sys.executable, "-c", "from towline.cli import main; main()", "simulate"]


def test_a_few_clusters_are_simulated_from_end_to_end() -> None:
    """Agents connect, one commit reaches all; the report and the answer say so."""
    flags = ["--clusters", "4", "--add", "300", "-o", "json"]
    flags += ["--scenario", "onboard", "--scenario", "commit"]
    done = subprocess.run(
        [*COMMAND, *flags], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    figures = {f["name"]: f["value"] for one in said["scenarios"] for f in one["figures"]}
    assert figures["commit to all of 4, acknowledged"] > 0
    needs = {one["need"] for one in said["forecast"]["grounds"]}
    assert needs == {"all connecting anew", "a commit to all"}
    assert said["forecast"]["clusters"] == 304
    assert "starting a control plane" in done.stderr
