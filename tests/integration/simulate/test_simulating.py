"""The simulator against a real control plane, small."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PATIENCE = 240
pytestmark = pytest.mark.timeout(PATIENCE + 60)

COMMAND = [sys.executable, "-c", "from towline.cli import main; main()", "simulate"]


RECORDING = """{"recording":"churn/1","seconds":1,"objects":2}
{"at":0.2,"object":0,"kind":"apps/v1/Deployment","health":"PROGRESSING"}
{"at":0.3,"object":1,"kind":"v1/Pod"}
{"at":0.7,"object":1,"kind":"v1/Pod","gone":true}
{"at":0.9,"object":0,"kind":"apps/v1/Deployment"}
"""


def test_a_few_clusters_are_simulated_from_end_to_end(tmp_path: Path) -> None:
    """One command runs five scenarios and prints figures for each."""
    (tmp_path / "churn.jsonl").write_text(RECORDING)
    flags = ["--clusters", "4", "--add", "300", "-o", "json"]
    flags += ["--scenario", "onboard", "--scenario", "commit"]
    flags += ["--scenario", "churn", "--churn", str(tmp_path / "churn.jsonl"), "--seconds", "1"]
    flags += ["--scenario", "noisy", "--scenario", "storm"]
    done = subprocess.run(
        [*COMMAND, *flags], capture_output=True, text=True, check=False, timeout=PATIENCE
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    figures = {f["name"]: f["value"] for one in said["scenarios"] for f in one["figures"]}
    assert figures["commit to all of 4, acknowledged"] > 0
    assert figures["churn, changes reported per second"] > 1
    assert figures["report to acknowledgement, p95"] > 0
    assert figures["with a noisy agent, relative to calm"] > 0
    back = said["scenarios"][-1]["curves"][0]["lines"]["linked"]
    assert back[-1] == [figures["all 4 agents back"], 100]
    needs = {one["need"] for one in said["forecast"]["grounds"]}
    assert needs == {"reconnecting all agents", "a commit to all"}
    assert said["forecast"]["clusters"] == 304
    assert "starting a control plane" in done.stderr
