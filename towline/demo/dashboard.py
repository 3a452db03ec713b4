"""Interactive view of the demo: hints and live state, until Ctrl-C."""

import time
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from core.errors import TowlineError
from core.json_object import JsonObject
from towline.cli.shell.output import age
from towline.demo.environment import DemoEnvironment
from towline.demo.steps import DemoSteps

_EVERY_SECONDS = 1.0
_COLOURS = {"HEALTHY": "green", "SYNCED": "cyan", "STALE": "yellow", "FAILED": "red"}
_STATE = """{ serviceDeployments(first: 20) { edges { node { name status sha observedAt
  cluster { handle pingedAt } errors { message } } } } }"""


def show(stage: DemoEnvironment, story: DemoSteps, console: Console) -> None:
    """Shows the fleet until Ctrl-C; without a terminal, prints the hints once."""
    environment = _write_environment(stage)
    hints = _hints(stage, environment)
    if not console.is_terminal:
        console.print("\n".join(hints))
        while True:
            time.sleep(3600)
    with Live(console=console, auto_refresh=False) as live:
        while True:
            live.update(Group(_table(stage, story), Text("\n".join(hints))), refresh=True)
            time.sleep(_EVERY_SECONDS)


def _write_environment(stage: DemoEnvironment) -> Path:
    """Writes a file to `source` in a shell, so that the command line and kubectl use the demo."""
    path = stage.folder / "env"
    path.touch(mode=0o600)
    values = stage.environment()
    lines = [
        f"export {name}={values[name]}"
        for name in ("TOWLINE_URL", "TOWLINE_TOKEN", "TOWLINE_CA_FILE")
    ]
    lines.append(f"export KUBECONFIG={stage.member_kubeconfig()}")
    path.write_text("\n".join(lines) + "\n")
    return path


def _hints(stage: DemoEnvironment, environment: Path) -> list[str]:
    return [
        "",
        _console_hint(stage),
        f"In another terminal:   source {environment}",
        "  towline services list              show services and their state",
        "  towline pipelines approve shop     approve the waiting release for prod",
        "  kubectl --context towline-dev get pods -n shop",
        "  kubectl --context towline-dev scale deploy/web --replicas=5 -n shop   watch it heal",
        f"  git clone {stage.repository.url}   change a file, commit, push",
        "",
        f"API at {stage.url}/gql. Ctrl-C stops everything.",
    ]


def _console_hint(stage: DemoEnvironment) -> str:
    """URL of the console, with the setup link as long as it is valid."""
    link = stage.data / "setup.url"
    query = link.read_text().strip().partition("?")[2] if link.exists() else ""
    path = f"/setup?{query}   choose a password" if query else ""
    return f"Console:  {stage.http_url}{path}"


def _table(stage: DemoEnvironment, story: DemoSteps) -> Table:
    table = Table(title="Towline demo", title_justify="left")
    for column in ("cluster", "service", "status", "commit", "agent last seen", "problem"):
        table.add_column(column)
    try:
        services = stage.ask(_STATE)["serviceDeployments"]["edges"]
        waiting = story.pipeline()["edges"][0]
    except TowlineError as error:
        table.caption = f"the control plane does not respond: {error.message}"
        return table
    for edge in services:
        table.add_row(*_row(edge["node"]))
    if waiting["release"]:
        table.caption = f"release {waiting['release']['id']} waits before prod: {_gate(waiting)}"
    return table


def _row(service: JsonObject) -> list[str | Text]:
    colour = _COLOURS.get(service["status"], "white")
    errors = service["errors"]
    return [
        service["cluster"]["handle"],
        service["name"],
        Text(service["status"], style=colour),
        (service["sha"] or "")[:8],
        age(service["cluster"]["pingedAt"]),
        errors[0]["message"] if errors else "",
    ]


def _gate(edge: JsonObject) -> str:
    gate = edge["gates"][0]
    return f"{gate['state'].lower()}, {gate['reason'] or edge['reason']}"
