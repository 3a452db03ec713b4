"""`towline simulate`: how a control plane bears many clusters, and whether it bears more."""

import asyncio
import json
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from fleet.errors import Invalid
from towline.cli.lazy import load
from towline.cli.output import Column, Format, field, printable, say, show
from towline.cli.session import target_of, wish_of

_COLUMNS: tuple[Column, ...] = (
    field("SCENARIO"),
    field("FIGURE"),
    field("VALUE"),
    field("GOAL"),
    field("OK"),
)
_USUAL = ("idle", "onboard", "commit", "hung", "slow", "noisy", "flapping", "storm")
_GIT = ("commit", "churn")


def simulate(
    context: typer.Context,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            help="One of those above; once for each. All without, churn only with --churn."
        ),
    ] = None,
    clusters: Annotated[int, typer.Option(help="How many clusters to simulate.")] = 100,
    add: Annotated[
        int | None, typer.Option(help="Tell whether so many could be added to them.")
    ] = None,
    memory: Annotated[
        int, typer.Option(help="MiB that a replica may use, for that answer.")
    ] = 2048,
    seconds: Annotated[float, typer.Option(help="How long to watch at each step.")] = 20.0,
    noise: Annotated[float, typer.Option(help="Reports a second of a noisy agent.")] = 1000.0,
    churn: Annotated[
        Path | None, typer.Option(help="A recording by record-churn, which scenario churn plays.")
    ] = None,
    processes: Annotated[
        int | None,
        typer.Option(help="How many processes hold the agents; by their number without."),
    ] = None,
    agents: Annotated[
        list[str] | None,
        typer.Option(help="host:port of the agents' listener, with --url; once for each replica."),
    ] = None,
    agents_ca: Annotated[
        Path | None, typer.Option(help="PEM file of the authority that agents trust, with --url.")
    ] = None,
    metrics: Annotated[
        str, typer.Option(help="URL of the control plane's metrics, with --url.")
    ] = "",
    html: Annotated[Path | None, typer.Option(help="Write a page with plots.")] = None,
    output: Annotated[Format, typer.Option("-o", "--output", help="How to print.")] = Format.TABLE,
) -> None:
    """Simulate many clusters with the real link, and tell what they cost.

    Without --url, against a control plane that is started for it and removed afterwards.

    \b
    Scenarios, in the order in which they are played:
      idle      nothing happens, with more and more clusters
      onboard   all clusters register and connect at once; with idle, half of them
      commit    one commit changes a service in each cluster
      churn     all play what record-churn has recorded
      hung      a third of the agents answer nothing: do others notice?
      slow      a third of the agents read slowly: do others notice?
      noisy     one agent tells of drift all the time: do others notice?
      flapping  connections are cut every second
      storm     the control plane is killed, and all agents come back

    \b
    Example:
      towline simulate --clusters 500 --add 300 --html report.html
    """
    os.environ.setdefault("GRPC_ENABLE_FORK_SUPPORT", "0")
    plan = load("towline.simulate.stage").Plan(
        clusters=clusters, seconds=seconds, noise=noise, churn=churn
    )
    wish, hub = wish_of(context), None
    if wish.url or wish.context:
        if not agents or agents_ca is None:
            raise Invalid("with --url, say --agents and --agents-ca: where agents connect to")
        if churn is not None:
            raise Invalid("--churn commits to git: it needs a control plane of its own, no --url")
        if add is not None and not metrics:
            raise Invalid("with --url, --add needs --metrics: they tell what a cluster costs")
        authority = agents_ca.read_text()
        hub = load("towline.simulate.hub").given(
            target_of(context), tuple(agents), authority, metrics
        )
    usual = [*_USUAL, "churn"] if churn else _USUAL
    wanted = scenario or [name for name in usual if hub is None or name not in _GIT]
    program = load("towline.simulate.program")
    outcomes = asyncio.run(program.run(wanted, plan, processes, hub, say))
    _tell(outcomes, clusters + add if add is not None else None, memory, html, output)


def record_churn(
    file: Annotated[Path, typer.Argument(help="Where to write the recording.")],
    seconds: Annotated[float, typer.Option(min=1, max=86_400, help="For how long.")] = 600.0,
    kubeconfig: Annotated[Path, typer.Option(help="How to reach the cluster.")] = Path(
        "~/.kube/config"
    ),
    kube_context: Annotated[
        str | None, typer.Option(help="A context of that file; its current one without.")
    ] = None,
) -> None:
    """Record when workloads of a cluster change, for simulate --churn.

    Only times, kinds and health are kept: no name, no namespace, no content. It takes the right
    to list and watch workloads in all namespaces.

    \b
    Example:
      towline record-churn churn.jsonl --seconds 3600 --kube-context production
    """
    if file.exists():
        raise Invalid(f"{file} exists: name another file", field="file")
    recorded = asyncio.run(_recorded(seconds, kubeconfig.expanduser(), kube_context))
    if not recorded.changes:
        raise Invalid(f"nothing changed within {seconds:.0f} s: record for longer", field="seconds")
    lines = load("towline.simulate.churn").lines_of(recorded)
    file.write_text("".join(f"{line}\n" for line in lines))
    say(f"{len(recorded.changes)} changes, {recorded.rate:.2g} a second")


async def _recorded(seconds: float, kubeconfig: Path, context: str | None) -> Any:
    clock = load("fleet.runtime.clock").SystemClock()
    access = load("syncagent.kube.access").from_kubeconfig(kubeconfig, context, clock)
    async with load("towline.simulate.recorder").recording(access, clock) as recorder:
        say(f"recording for {seconds:.0f} s")
        await clock.sleep(seconds)
        return recorder.recording()


def _tell(
    outcomes: Sequence[Any], clusters: int | None, memory: int, html: Path | None, output: Format
) -> None:
    forecasts, report = load("towline.simulate.forecast"), load("towline.simulate.report")
    after = None
    if clusters is not None:
        limits = forecasts.Limits(memory=float(memory << 20))
        after = forecasts.forecast(outcomes, clusters, limits)
    if html is not None:
        html.write_text(report.html("Simulated clusters", outcomes, after))
    if output is Format.JSON:
        print(printable(json.dumps(report.document(outcomes, after), indent=2)))
        return
    show(report.rows(outcomes), _COLUMNS, output, "figure")
    if after is not None:
        say(after.answer)
        for one in after.grounds:
            say(f"  {one.need}: {one.value:,.4g} of {one.limit:,.4g} {one.unit}")
