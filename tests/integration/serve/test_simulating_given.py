"""The simulator against a control plane that runs already."""

import asyncio
import json
import os
import subprocess
import sys

from tests.integration.serve.conftest import Running

COMMAND = [sys.executable, "-c", "from towline.cli import main; main()"]


async def test_simulated_clusters_are_removed_afterwards(hub: Running) -> None:
    """Its own clusters stay; agents find it by the address and the authority that are given."""
    kept = await hub.cluster("kept")
    words = ["--url", hub.url, "simulate", "--clusters", "3", "--scenario", "onboard"]
    words += ["--agents", hub.addresses.agents, "--agents-ca", str(hub.data / "tls" / "ca.crt")]
    done = await asyncio.to_thread(
        subprocess.run,
        [*COMMAND, *words, "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
        env={**os.environ, "TOWLINE_TOKEN": hub.token},
    )
    assert done.returncode == 0, done.stderr
    figures = {f["name"] for one in json.loads(done.stdout)["scenarios"] for f in one["figures"]}
    assert "connect 3 agents" in figures
    found = (await hub.ask("{ clusters { edges { node { id } } } }"))["clusters"]["edges"]
    assert [one["node"]["id"] for one in found] == [kept["id"]]
