"""`towline simulate`: measures a control plane under the load of many simulated clusters."""

import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.lazy_import import load
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import escape_controls, field, say, show
from towline.cli.shell.session import global_flags, selected_target
from towline.input_files import read_text

_COLUMNS = (
    field("SCENARIO"),
    field("FIGURE"),
    field("VALUE"),
    field("GOAL"),
    field("OK"),
)
_USUAL = ("idle", "onboard", "commit", "hung", "slow", "noisy", "flapping", "storm")
_GIT = ("commit", "churn")


class SimulationOptions(OptionGroup):
    """Options of a simulation."""

    scenario: Annotated[
        list[str] | None,
        typer.Option(help="Scenario to run; repeatable (default: all; churn only with --churn)."),
    ] = None
    clusters: Annotated[int, typer.Option(help="Number of clusters to simulate.")] = 100
    add: Annotated[
        int | None, typer.Option(help="Forecast whether N more clusters would fit.", metavar="N")
    ] = None
    memory: Annotated[
        int, typer.Option(help="Memory limit of a replica in MiB, for the forecast.")
    ] = 2048
    seconds: Annotated[float, typer.Option(help="Seconds to measure each step.")] = 20.0
    noise: Annotated[float, typer.Option(help="Reports per second of a noisy agent.")] = 1000.0
    churn: Annotated[
        Path | None, typer.Option(help="Recording made by record-churn, for the scenario churn.")
    ] = None
    processes: Annotated[
        int | None,
        typer.Option(help="Number of processes that run agents (default: by number of agents)."),
    ] = None
    agents: Annotated[
        list[str] | None,
        typer.Option(help="host:port of the agent listener, with --url; once for each replica."),
    ] = None
    agents_ca: Annotated[
        Path | None,
        typer.Option(help="CA certificate of the agent listener (PEM file), with --url."),
    ] = None
    metrics: Annotated[
        str, typer.Option(help="URL of the control plane's metrics, with --url.")
    ] = ""
    html: Annotated[Path | None, typer.Option(help="Write an HTML report with plots.")] = None


@option_groups
def simulate(
    context: typer.Context,
    options: SimulationOptions,
    output: Output = Format.TABLE,
) -> None:
    """Simulate many clusters over the real agent protocol, and measure their cost.

    Without --url, the command starts a temporary control plane.

    \b
    Scenarios, in this order:
      idle      no changes, with a growing number of clusters
      onboard   all clusters register and connect at once; with idle, half of them
      commit    one commit changes a service in each cluster
      churn     all clusters replay a recording made by record-churn
      hung      a third of the agents never respond; measures the effect on others
      slow      a third of the agents read slowly; measures the effect on others
      noisy     one agent reports drift continuously; measures the effect on others
      flapping  connections break every second
      storm     the control plane is killed, and all agents reconnect

    \b
    Example:
      towline simulate --clusters 500 --add 300 --html report.html
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    plan = load("towline.simulate.simulation").SimulationPlan(
        clusters=options.clusters,
        seconds=options.seconds,
        noise=options.noise,
        churn=options.churn,
    )
    hub = _existing_control_plane(context, options)
    usual = [*_USUAL, "churn"] if options.churn else _USUAL
    scenarios = options.scenario or [name for name in usual if hub is None or name not in _GIT]
    program = load("towline.simulate.program")
    outcomes = load("asyncio").run(program.run(scenarios, plan, options.processes, hub, say))
    _print_outcomes(outcomes, options, output)


def record_churn(
    file: Annotated[Path, typer.Argument(help="File to create.")],
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="Duration in seconds.")] = 600.0,
    kubeconfig: Annotated[Path, typer.Option(help="Kubeconfig of the cluster.")] = Path(
        "~/.kube/config"
    ),
    kube_context: Annotated[
        str | None, typer.Option(help="Context of the kubeconfig (default: the current one).")
    ] = None,
) -> None:
    """Record changes of a cluster's workloads, for simulate --churn.

    The recording contains only times, kinds and health: no names, namespaces or content. The
    command needs permission to list and watch workloads in all namespaces.

    \b
    Example:
      towline record-churn churn.jsonl --seconds 3600 --kube-context production
    """
    if file.exists():
        raise Invalid(f"{file} already exists; choose another name", field="file")
    recorded = load("asyncio").run(_record(seconds, kubeconfig.expanduser(), kube_context))
    if not recorded.changes:
        raise Invalid(f"nothing changed within {seconds:.0f} s; record longer", field="seconds")
    lines = load("towline.simulate.churn").lines_of(recorded)
    file.write_text("".join(f"{line}\n" for line in lines))
    say(f"{len(recorded.changes)} changes, {recorded.rate:.2g} per second")


def _existing_control_plane(context: typer.Context, options: SimulationOptions) -> object:
    """Control plane of --url or --context. Raises Invalid for options that do not fit together."""
    flags = global_flags(context)
    if not flags.url and not flags.context:
        return None
    if not options.agents or options.agents_ca is None:
        raise Invalid("--url requires --agents and --agents-ca")
    if options.churn is not None:
        raise Invalid(
            "--churn cannot be combined with --url: it commits to a Git server of its own"
        )
    if options.add is not None and not options.metrics:
        raise Invalid("with --url, --add requires --metrics")
    return load("towline.simulate.control_plane").existing_control_plane(
        selected_target(context),
        tuple(options.agents),
        read_text(options.agents_ca, "--agents-ca"),
        options.metrics,
    )


async def _record(seconds: float, kubeconfig: Path, context: str | None) -> object:
    clock = load("core.runtime.clock").SystemClock()
    access = load("towline.cluster_access").from_kubeconfig(kubeconfig, context, clock)
    async with load("towline.simulate.recorder").recording(access, clock) as recorder:
        say(f"recording for {seconds:.0f} s")
        await clock.sleep(seconds)
        return recorder.recording()


def _print_outcomes(outcomes: Sequence[object], options: SimulationOptions, output: Format) -> None:
    forecasts, report = load("towline.simulate.forecast"), load("towline.simulate.report")
    after = None
    if options.add is not None:
        total, limit = options.clusters + options.add, float(options.memory << 20)
        after = forecasts.forecast(outcomes, total, limit)
    if options.html is not None:
        options.html.write_text(report.html("Simulated clusters", outcomes, after))
    if output == Format.JSON:
        print(escape_controls(json.dumps(report.document(outcomes, after), indent=2)))
        return
    show(report.rows(outcomes), _COLUMNS, output, "figure")
    if after is not None:
        say(after.answer)
        for constraint in after.constraints:
            value, limit = f"{constraint.value:,.4g}", f"{constraint.limit:,.4g}"
            say(f"  {constraint.need}: {value} of {limit} {constraint.unit}")
