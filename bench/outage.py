"""Prints the course of a control plane outage: `python -m bench.outage`.

Runs one real cluster with its agent. The output is shown in docs/explanation/agent.md, and has no
goals.
"""

import json
import sys
import time
from collections.abc import Callable

from towline.demo.environment import DemoCluster, DemoEnvironment, wait_until
from towline.demo.sample import shop

_AWAY_SECONDS = 20.0


class OutageLog:
    """Prints events with the seconds since the start."""

    def __init__(self, stage: DemoEnvironment, member: DemoCluster) -> None:
        self._stage = stage
        self._member = member
        self._start = time.monotonic()
        self._log = stage.folder / f"agent-{member.name}" / "agent.log"
        self._read = len(self._log.read_text().splitlines())

    def say(self, text: str) -> None:
        """Prints one line, after the agent's log lines since the last one."""
        lines = self._log.read_text().splitlines()
        for line in lines[self._read :]:
            self._print(f"  agent: {_format_log_line(line)}")
        self._read = len(lines)
        self._print(text)

    def wait_until_met(self, text: str, is_met: Callable[[], bool]) -> None:
        """Waits for a condition, and prints the time it took."""
        took = wait_until(text, is_met, 90)
        self.say(f"{text}, after {took:.2f} s")

    def live(self) -> str:
        """Version in the cluster; empty if the object does not exist."""
        command = ("-n", "shop", "get", "configmap", "settings", "--ignore-not-found", "-o", "json")
        text = self._member.kubectl(*command)
        return json.loads(text)["data"]["version"] if text.strip() else ""

    def _print(self, text: str) -> None:
        print(f"{time.monotonic() - self._start:6.1f} s  {text}", flush=True)


def main() -> None:
    """Runs the outage."""
    with DemoEnvironment(lambda text: print(text, file=sys.stderr), names=["dev"]) as stage:
        stage.start()
        member = stage.members["dev"]
        _create_service(stage, member)
        story = OutageLog(stage, member)
        kubectl = member.kubectl
        story.wait_until_met("version 1.0 is live", lambda: story.live() == "1.0")
        stage.kill_control_plane()
        story.say("the control plane is killed")
        kubectl("-n", "shop", "delete", "configmap", "settings", "--wait=false")
        story.wait_until_met("somebody deletes settings: it is back", lambda: story.live() == "1.0")
        patch = '{"data":{"version":"9.9"}}'
        kubectl("-n", "shop", "patch", "configmap", "settings", "--type=merge", "-p", patch)
        story.wait_until_met(
            "somebody writes 9.9 into it: 1.0 again", lambda: story.live() == "1.0"
        )
        stage.repository.commit(shop("2.0"))
        story.say("version 2.0 is pushed, and has to wait")
        time.sleep(_AWAY_SECONDS)
        story.say(f"{_AWAY_SECONDS:.0f} s later the control plane is started again")
        stage.start_control_plane()
        story.wait_until_met("version 2.0 is live", lambda: story.live() == "2.0")
        story.wait_until_met(
            "the changes healed meanwhile are reported", lambda: _healed_changes(stage) > 0
        )


def _format_log_line(line: str) -> str:
    """Formats a line of the agent's log for people."""
    try:
        entry = json.loads(line)
    except json.JSONDecodeError:
        return line
    why = (entry.get("details") or entry.get("why") or "").partition(";")[0][:70]
    retry = f"; again in {entry['retry_s']} s" if "retry_s" in entry else ""
    return f"{entry['event']}{f': {why}' if why else ''}{retry}"


def _create_service(stage: DemoEnvironment, member: DemoCluster) -> None:
    stage.repository.commit(shop("1.0"))
    repository = stage.ask(
        "mutation ($url: String!) { createGitRepository(attributes: {url: $url}) { id } }",
        url=stage.repository.url,
    )["createGitRepository"]["id"]
    attributes = {
        "name": "shop",
        "namespace": "shop",
        "repositoryId": repository,
        "git": {"ref": "main", "folder": "dev"},
    }
    stage.ask(
        "mutation ($cluster: ID!, $attributes: ServiceDeploymentAttributes!) "
        "{ createServiceDeployment(clusterId: $cluster, attributes: $attributes) { id } }",
        cluster=member.id,
        attributes=attributes,
    )


def _healed_changes(stage: DemoEnvironment) -> int:
    """Number of healed changes in the ledger."""
    found = stage.ask("{ ledger(first: 50) { edges { node { stage } } } }")["ledger"]
    return sum(edge["node"]["stage"] == "drifted" for edge in found["edges"])


if __name__ == "__main__":
    main()
