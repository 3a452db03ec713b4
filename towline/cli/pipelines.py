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
    Column("ROLLED OUT", lambda row: _rolled_out(row["rollout"])),
    Column("COMMIT", lambda row: ", ".join(_commits(row["release"]))),
    Column("IN GIT", lambda row: _change(row["change"])),
    Column("SERVICES", lambda row: ", ".join(_services(row))),
    Column("REASON", lambda row: row["hold"] or row["rollout"]["reason"] or row["reason"]),
)
_STEPS = (
    field("STAGE"),
    field("RELEASE", "releaseId"),
    Column("WAS", lambda row: row["was"] or "not"),
    Column("WOULD HAVE BEEN", lambda row: row["would"] or "not"),
)
_TRIGGERS = (
    field("TRIGGER", "name"),
    field("TYPE"),
    field("STATE"),
    field("FOUND", "value"),
    since("CHECKED", "checkedAt"),
    Column("REASON", lambda row: row["error"] or _change(row["change"]) or row["reason"]),
)
_REFUSED = (field("REVISION"), field("REASON"), field("BY", "actor"), since("SINCE", "insertedAt"))
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
    gates += [
        {**stage["workflow"], "edge": stage["name"], "release": (stage["release"] or {}).get("id")}
        for stage in found["stages"]
        if stage["workflow"]
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


@app.command("what-if")
def what_if(
    context: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML of kind Pipeline.")],
    since: Annotated[str, typer.Option(help="Its beginning, like 2026-01-01T00:00Z.")],
    until: Annotated[str, typer.Option(help="The end of the window.")],
    output: Output = Format.TABLE,
) -> None:
    """Tell what a pipeline would have done in a past window with the gates of a file.

    \b
    Example:
      towline pipelines what-if -f stricter.yaml --since 2026-01-01T00:00Z --until 2026-01-08T00:00Z
    """
    api = connect(context)
    manifests = [one for one in read_manifests(file) if one.kind == "Pipeline"]
    if len(manifests) != 1:
        raise Invalid(f"{file} has {len(manifests)} pipelines: what-if takes one")
    (manifest,) = manifests
    attributes = Planner(api, dry_run=True).pipeline_attributes(manifest.fields)
    found = find_pipeline(api, manifest.fields["name"])
    given = {"attributes": attributes, "since": since, "until": until}
    told = api.ask(documents.PIPELINE_WHAT_IF, id=found["id"], **given)["pipelineWhatIf"]
    if output is not Format.TABLE:
        return show(told, _STEPS, output, "stage")
    show(told["steps"], _STEPS, output, "stage")
    for one in told["waiting"]:
        say(f"{one['releaseId']} would wait before {one['stage']}: {one['reason']}")


@app.command("skip")
def skip(
    context: typer.Context,
    pipeline: Name,
    gate: Annotated[str, typer.Argument(help="Name or id of the gate.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="Why; kept in the history.")],
    output: Output = Format.TABLE,
) -> None:
    """Let the release that waits at a gate pass without its answer.

    \b
    Example:
      towline pipelines skip shop load-test -m "the test cluster burns, see incident 4711"
    """
    api = connect(context)
    edge, found = find_gate(find_pipeline(api, pipeline), gate)
    release = (edge["release"] or {}).get("id", "")
    done = api.ask(documents.SKIP_GATE, id=found["id"], release=release, reason=reason)
    show(done["skipGate"], COLUMNS, output, "name")


@app.command("answer")
def answer(
    context: typer.Context,
    pipeline: Name,
    gate: Annotated[str, typer.Argument(help="Name or id of the gate.")],
    release: Annotated[str, typer.Option(help="The release that was judged.")],
    passed: Annotated[bool, typer.Option("--passed/--failed", help="What came out.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="For those who read it.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Decide at an EXTERNAL gate, signed in as the account that it names.

    \b
    Example:
      towline pipelines answer shop nightly --release r7-3fa9c1d2e4b5 --passed -m "412 tests"
    """
    api = connect(context)
    _, found = find_gate(find_pipeline(api, pipeline), gate)
    given = {"id": found["id"], "release": release, "passed": passed, "reason": reason}
    show(api.ask(documents.ANSWER_GATE, **given)["answerGate"], COLUMNS, output, "name")


@app.command("start")
def start(
    context: typer.Context,
    pipeline: Name,
    reason: Annotated[str, typer.Option("-m", "--reason", help="For the history.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Make what the first stage holds a release, where commits alone do not.

    \b
    Example:
      towline pipelines start shop -m "the sprint is done"
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "reason": reason}
    show(api.ask(documents.START_RELEASE, **given)["startRelease"], COLUMNS, output, "name")


@app.command("triggers")
def triggers(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Show what starts releases of a pipeline, and what was found last.

    \b
    Example:
      towline pipelines triggers shop
    """
    show(find_pipeline(connect(context), pipeline)["triggers"], _TRIGGERS, output, "name")


@app.command("check")
def check(
    context: typer.Context,
    pipeline: Name,
    trigger: Annotated[str, typer.Argument(help="Name or id of the trigger.")],
    output: Output = Format.TABLE,
) -> None:
    """Have a trigger look for something new at once.

    \b
    Example:
      towline pipelines check shop new-image
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "trigger": trigger}
    show(api.ask(documents.CHECK_TRIGGER, **given)["checkTrigger"], COLUMNS, output, "name")


@app.command("abort")
def abort(
    context: typer.Context,
    pipeline: Name,
    stage: Annotated[str, typer.Argument(help="Name of the stage.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="For those who wait.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Stop the roll-out in a stage where it is; `retry` goes on with it.

    \b
    Example:
      towline pipelines abort shop prod -m "latency doubles"
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "stage": stage, "reason": reason}
    show(api.ask(documents.ABORT_ROLLOUT, **given)["abortRollout"], COLUMNS, output, "name")


@app.command("lift-hold")
def lift_hold(
    context: typer.Context,
    pipeline: Name,
    stage: Annotated[str, typer.Argument(help="Name of the stage.")],
    output: Output = Format.TABLE,
) -> None:
    """Say that you have seen why a stage was put back to an older release.

    \b
    Example:
      towline pipelines lift-hold shop prod
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "stage": stage}
    show(api.ask(documents.LIFT_HOLD, **given)["liftHold"], COLUMNS, output, "name")


@app.command("refused")
def refused(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List commits and digests that no pipeline moves.

    \b
    Example:
      towline pipelines refused
    """
    rows = connect(context).ask(documents.REFUSED_REVISIONS)["refusedRevisions"]
    show(rows, _REFUSED, output, "revision")


@app.command("refuse")
def refuse(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="A whole commit or digest.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="For those who miss it.")],
    output: Output = Format.TABLE,
) -> None:
    """Have no pipeline move a commit or digest.

    \b
    Example:
      towline pipelines refuse 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c -m "loses orders"
    """
    done = connect(context).ask(documents.REFUSE_REVISION, revision=revision, reason=reason)
    show(done["refuseRevision"], _REFUSED, output, "revision")


@app.command("lift")
def lift(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="A commit or digest that is refused.")],
    output: Output = Format.TABLE,
) -> None:
    """Let pipelines move a commit or digest again.

    \b
    Example:
      towline pipelines lift 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c
    """
    done = connect(context).ask(documents.LIFT_REVISION, revision=revision)
    show(done["liftRevision"], _REFUSED, output, "revision")


@app.command("resume")
def resume(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Let releases move again.

    \b
    Example:
      towline pipelines resume shop
    """
    _changed(context, documents.RESUME_PIPELINE, pipeline, output)


@app.command("delete")
def delete_pipeline(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Delete a pipeline; its services stay.

    \b
    Example:
      towline pipelines delete shop
    """
    _changed(context, documents.DELETE_PIPELINE, pipeline, output)


def _changed(context: typer.Context, document: str, pipeline: str, output: Format) -> None:
    api: Api = connect(context)
    (done,) = api.ask(document, id=find_pipeline(api, pipeline)["id"]).values()
    show(done, COLUMNS, output, "name")


def find_gate(pipeline: Json, name: str | None) -> tuple[Json, Json]:
    """By name or id, with its edge or stage; without one, the only that waits for approval."""
    gates = [(edge, gate) for edge in pipeline["edges"] for gate in edge["gates"]]
    own = [(stage, stage["workflow"]) for stage in pipeline["stages"] if stage["workflow"]]
    if name is None:
        asking = ("APPROVAL", "MANUAL", "WORKFLOW")
        gates = [(e, g) for e, g in gates if g["type"] in asking and e["release"]]
        gates += [(s, g) for s, g in own if g["state"] == "RUNNING"]
    else:
        gates = [(e, g) for e, g in (*gates, *own) if name in (g["id"], g["name"])]
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


def _rolled_out(rollout: Row) -> str:
    return f"{rollout['healthy']} of {sum(rollout['waves'])}" if rollout["given"] else ""


def _commits(release: Row | None) -> list[str]:
    return sorted({short(one["sha"]) for one in release["revisions"]}) if release else []


def _change(change: Row | None) -> str:
    """What the release became: the request if there is one, else the commit."""
    if change is None:
        return ""
    request = f"#{change['number']} " if change["number"] else ""
    return f"{request}{change['state'].lower()} {change['url'] or short(change['sha'] or '')}"


def _services(stage: Row) -> list[str]:
    services = [one["service"] for one in stage["services"]]
    return [f"{(one['cluster'] or {}).get('handle', '?')}/{one['name']}" for one in services]
