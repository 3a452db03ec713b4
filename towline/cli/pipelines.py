"""`towline pipelines …`."""

from pathlib import Path
from typing import Annotated

import typer

from fleet.errors import Conflict, Invalid, NotFound
from towline.cli import documents
from towline.cli.manifests import read_manifests
from towline.cli.output import Column, Format, Row, field, printable, say, short, show, since
from towline.cli.plan import Planner
from towline.cli.session import Api, Json, Output, Search, connect, every, find_pipeline

app = typer.Typer(no_args_is_help=True, help="How releases walk through the fleet.")

Name = Annotated[str, typer.Argument(help="Name or id of the pipeline.")]
GateName = Annotated[
    str | None, typer.Argument(help="Name or id of the gate; the one that waits, if not given.")
]
Comment = Annotated[str, typer.Option("-m", "--comment", help="For those who read it later.")]
COLUMNS = (
    field("NAME"),
    Column("STAGES", lambda row: " → ".join(_stage(one) for one in row["stages"])),
    Column("WAITS", lambda row: row["paused"] or "; ".join(_waits(row))),
)
_STAGES = (
    field("STAGE", "name"),
    field("HEALTH"),
    Column("RELEASE", lambda row: (row["release"] or {}).get("id", "")),
    Column("COMMIT", lambda row: ", ".join(_commits(row["release"]))),
    Column("SERVICES", lambda row: ", ".join(_services(row))),
    field("REASON"),
)
_GATES = (
    Column("EDGE", lambda row: row["edge"]),
    field("GATE", "name"),
    field("TYPE"),
    field("STATE"),
    Column("RELEASE", lambda row: row["release"]),
    field("REASON"),
)


@app.command("list")
def list_pipelines(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List pipelines.

    \b
    Example:
      towline pipelines list
    """
    show(every(connect(context), documents.PIPELINES, q=query), COLUMNS, output, "name")


@app.command("get")
def get_pipeline(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Show stages, gates, and what waits at them.

    \b
    Example:
      towline pipelines get shop
    """
    found = find_pipeline(connect(context), pipeline)
    if output is not Format.TABLE:
        return show(found, COLUMNS, output, "name")
    if found["paused"]:
        print(f"{printable(found['paused'])}\n")
    show(found["stages"], _STAGES, output, "name")
    gates = [
        {**gate, "edge": _edge(edge), "release": (edge["release"] or {}).get("id", "")}
        for edge in found["edges"]
        for gate in edge["gates"]
    ]
    if gates:
        print()
        show(gates, _GATES, output, "name")
    if found["history"]:
        print()
        columns = (since("WHEN", "at"), field("WHERE", "place"), field("RELEASE", "releaseId"))
        rows = found["history"][-10:]
        show(rows, (*columns, field("WHAT", "text"), field("BY", "actor")), output, "text")


@app.command("apply")
def apply_pipeline(
    context: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML of kind Pipeline.")],
    dry_run: Annotated[bool, typer.Option(help="Only tell what would change.")] = False,
) -> None:
    """Create or change pipelines from a file.

    \b
    Example:
      towline pipelines apply -f shop.yaml
    """
    manifests = read_manifests(file)
    if strange := next((one for one in manifests if one.kind != "Pipeline"), None):
        raise Invalid(f"{strange.place} is a {strange.kind}: use `towline apply`")
    planner = Planner(connect(context), dry_run=dry_run)
    for manifest in manifests:
        print(*planner.apply(manifest), sep="\n")


@app.command("approve")
def approve(
    context: typer.Context,
    pipeline: Name,
    gate: GateName = None,
    release: Annotated[
        str | None, typer.Option(help="Only if this release waits there; see `get`.")
    ] = None,
    comment: Comment = "",
    output: Output = Format.TABLE,
) -> None:
    """Approve what waits at a gate; the digests approved are printed.

    \b
    Example:
      towline pipelines approve shop --release r7-3fa9c1d2e4b5 -m "load test is fine"
    """
    api = connect(context)
    edge, found = find_gate(find_pipeline(api, pipeline), gate)
    waiting = (edge["release"] or {}).get("id")
    if release is not None and release != waiting:
        raise Conflict(f"release {waiting or 'none'} waits at {found['name']}, not {release}")
    digests = [{"serviceId": one["serviceId"], "digest": one["digest"]} for one in edge["digests"]]
    done = api.ask(documents.APPROVE_GATE, id=found["id"], digests=digests, comment=comment)
    for one in edge["digests"]:
        say(f"approved {short(one['sha'])} with {one['digest']} for service {one['serviceId']}")
    show(done["approveGate"], COLUMNS, output, "name")


@app.command("reject")
def reject(
    context: typer.Context,
    pipeline: Name,
    gate: GateName = None,
    comment: Comment = "",
    output: Output = Format.TABLE,
) -> None:
    """Stop the release that waits at a gate.

    \b
    Example:
      towline pipelines reject shop -m "breaks the import"
    """
    api = connect(context)
    _, found = find_gate(find_pipeline(api, pipeline), gate)
    done = api.ask(documents.REJECT_GATE, id=found["id"], comment=comment)
    show(done["rejectGate"], COLUMNS, output, "name")


@app.command("retry")
def retry(
    context: typer.Context,
    pipeline: Name,
    stage: Annotated[str, typer.Argument(help="Name of the stage.")],
    output: Output = Format.TABLE,
) -> None:
    """Try again what was refused or has failed in a stage.

    \b
    Example:
      towline pipelines retry shop prod
    """
    api = connect(context)
    found = find_pipeline(api, pipeline)
    done = api.ask(documents.RETRY_PIPELINE, id=found["id"], stage=stage)
    show(done["retryPipeline"], COLUMNS, output, "name")


@app.command("pause")
def pause(
    context: typer.Context,
    pipeline: Name,
    reason: Annotated[str, typer.Option("-m", "--reason", help="For those who wait.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Let nothing enter a stage until `resume`.

    \b
    Example:
      towline pipelines pause shop -m "incident 4711"
    """
    api = connect(context)
    found = find_pipeline(api, pipeline)
    done = api.ask(documents.PAUSE_PIPELINE, id=found["id"], reason=reason)
    show(done["pausePipeline"], COLUMNS, output, "name")


@app.command("resume")
def resume(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Let releases move again.

    \b
    Example:
      towline pipelines resume shop
    """
    _change(context, documents.RESUME_PIPELINE, pipeline, output)


@app.command("delete")
def delete_pipeline(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Delete a pipeline; its services stay.

    \b
    Example:
      towline pipelines delete shop
    """
    _change(context, documents.DELETE_PIPELINE, pipeline, output)


def _change(context: typer.Context, document: str, pipeline: str, output: Format) -> None:
    api: Api = connect(context)
    (done,) = api.ask(document, id=find_pipeline(api, pipeline)["id"]).values()
    show(done, COLUMNS, output, "name")


def find_gate(pipeline: Json, name: str | None) -> tuple[Json, Json]:
    """(edge, gate) by name or id; without one, the only gate that waits for approval."""
    gates = [(edge, gate) for edge in pipeline["edges"] for gate in edge["gates"]]
    if name is None:
        gates = [(e, g) for e, g in gates if g["type"] == "APPROVAL" and e["release"]]
    else:
        gates = [(e, g) for e, g in gates if name in (g["id"], g["name"])]
    if len(gates) > 1:
        names = ", ".join(f"{gate['name']} ({gate['id']})" for _, gate in gates)
        raise Invalid(f"say which gate: {names}")
    if not gates:
        raise NotFound(f"no gate {name}" if name else "nothing waits for approval")
    return gates[0]


def _stage(stage: Row) -> str:
    return f"{stage['name']} {stage['health'].lower()}"


def _edge(edge: Row) -> str:
    return f"{edge['from']['name']} → {edge['to']['name']}"


def _waits(pipeline: Row) -> list[str]:
    return [f"{e['to']['name']}: {e['reason']}" for e in pipeline["edges"] if e["release"]]


def _commits(release: Row | None) -> list[str]:
    return sorted({short(one["sha"]) for one in release["revisions"]}) if release else []


def _services(stage: Row) -> list[str]:
    services = [one["service"] for one in stage["services"]]
    return [f"{(one['cluster'] or {}).get('handle', '?')}/{one['name']}" for one in services]
