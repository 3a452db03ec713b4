"""`towline pipelines …`."""

from pathlib import Path
from typing import Annotated

import typer

from core.errors import Conflict, Invalid, NotFound
from towline.cli.apply.manifests import read_manifests
from towline.cli.apply.plan import ManifestPlanner
from towline.cli.shell import documents
from towline.cli.shell.output import (
    Column,
    Format,
    Row,
    escape_controls,
    field,
    say,
    short,
    show,
    since,
)
from towline.cli.shell.session import (
    GraphQLApi,
    Json,
    Output,
    Search,
    connect,
    every,
    find_pipeline,
)

app = typer.Typer(no_args_is_help=True, help="Pipelines: promote releases from stage to stage.")

Name = Annotated[str, typer.Argument(help="Name or id of the pipeline.")]
GateName = Annotated[
    str | None, typer.Argument(help="Name or id of the gate (default: the only waiting gate).")
]
Comment = Annotated[str, typer.Option("-m", "--comment", help="Comment, kept in the history.")]
COLUMNS = (
    field("NAME"),
    Column("STAGES", lambda row: " → ".join(_stage(stage) for stage in row["stages"])),
    Column("WAITING FOR", lambda row: row["paused"] or "; ".join(_waits(row))),
)
_STAGES = (
    field("STAGE", "name"),
    field("HEALTH"),
    Column("RELEASE", lambda row: (row["release"] or {}).get("id", "")),
    Column("ROLLED OUT", lambda row: _rolled_out(row["rollout"])),
    Column("COMMIT", lambda row: ", ".join(_commits(row["release"]))),
    Column("GIT CHANGE", lambda row: _change(row["change"])),
    Column("SERVICES", lambda row: ", ".join(_services(row))),
    Column("REASON", lambda row: row["hold"] or row["rollout"]["reason"] or row["reason"]),
)
_STEPS = (
    field("STAGE"),
    field("RELEASE", "releaseId"),
    Column("ACTUAL", lambda row: row["was"] or "not deployed"),
    Column("SIMULATED", lambda row: row["would"] or "not deployed"),
)
_TRIGGERS = (
    field("TRIGGER", "name"),
    field("TYPE"),
    field("STATE"),
    field("LAST VALUE", "value"),
    since("LAST CHECK", "checkedAt"),
    Column("REASON", lambda row: row["error"] or _change(row["change"]) or row["reason"]),
)
_DENIED = (field("REVISION"), field("REASON"), field("BY", "actor"), since("SINCE", "insertedAt"))
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
    """Show the stages and gates of a pipeline, and waiting releases.

    \b
    Example:
      towline pipelines get shop
    """
    found = find_pipeline(connect(context), pipeline)
    if output is not Format.TABLE:
        return show(found, COLUMNS, output, "name")
    if found["paused"]:
        print(f"{escape_controls(found['paused'])}\n")
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
        columns = (since("AGE", "at"), field("STAGE", "place"), field("RELEASE", "releaseId"))
        rows = found["history"][-10:]
        show(rows, (*columns, field("EVENT", "text"), field("BY", "actor")), output, "text")


@app.command("apply")
def apply_pipeline(
    context: typer.Context,
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML file of kind Pipeline.")],
    dry_run: Annotated[bool, typer.Option(help="Print the changes without making them.")] = False,
) -> None:
    """Create or update pipelines from a file.

    \b
    Example:
      towline pipelines apply -f shop.yaml
    """
    manifests = read_manifests(file)
    if strange := next((manifest for manifest in manifests if manifest.kind != "Pipeline"), None):
        raise Invalid(
            f"{strange.place} is of kind {strange.kind}, not Pipeline; use `towline apply`"
        )
    planner = ManifestPlanner(connect(context), dry_run=dry_run)
    for manifest in manifests:
        print(*planner.apply(manifest), sep="\n")


@app.command("approve")
def approve(
    context: typer.Context,
    pipeline: Name,
    gate: GateName = None,
    release: Annotated[
        str | None, typer.Option(help="Approve only if this release is waiting; see `get`.")
    ] = None,
    comment: Comment = "",
    output: Output = Format.TABLE,
) -> None:
    """Approve the release that waits at a gate; prints the approved digests.

    \b
    Example:
      towline pipelines approve shop --release r7-3fa9c1d2e4b5 -m "load test is fine"
    """
    api = connect(context)
    edge, found = find_gate(find_pipeline(api, pipeline), gate)
    waiting = (edge["release"] or {}).get("id")
    if release is not None and release != waiting:
        raise Conflict(
            f"release {release} is not waiting at gate {found['name']}; "
            f"waiting there: {waiting or 'none'}"
        )
    digests = [
        {"serviceId": shown["serviceId"], "digest": shown["digest"]} for shown in edge["digests"]
    ]
    done = api.ask(documents.APPROVE_GATE, id=found["id"], digests=digests, comment=comment)
    for shown in edge["digests"]:
        say(
            f"approved {short(shown['sha'])} with {shown['digest']} "
            f"for service {shown['serviceId']}"
        )
    show(done["approveGate"], COLUMNS, output, "name")


@app.command("reject")
def reject(
    context: typer.Context,
    pipeline: Name,
    gate: GateName = None,
    comment: Comment = "",
    output: Output = Format.TABLE,
) -> None:
    """Reject the release that waits at a gate.

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
    """Retry a stage whose release failed or was rejected.

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
    reason: Annotated[
        str, typer.Option("-m", "--reason", help="Reason, shown while the pipeline waits.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Pause a pipeline: no release enters a stage until `resume`.

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
    file: Annotated[Path, typer.Option("-f", "--file", help="YAML file of kind Pipeline.")],
    since: Annotated[str, typer.Option(help="Start of the window, such as 2026-01-01T00:00Z.")],
    until: Annotated[str, typer.Option(help="End of the window.")],
    output: Output = Format.TABLE,
) -> None:
    """Simulate a past time window with the gates of a file.

    \b
    Example:
      towline pipelines what-if -f stricter.yaml --since 2026-01-01T00:00Z --until 2026-01-08T00:00Z
    """
    api = connect(context)
    manifests = [manifest for manifest in read_manifests(file) if manifest.kind == "Pipeline"]
    if len(manifests) != 1:
        raise Invalid(f"{file} contains {len(manifests)} pipelines; what-if needs exactly one")
    (manifest,) = manifests
    attributes = ManifestPlanner(api, dry_run=True).pipeline_attributes(manifest.fields)
    found = find_pipeline(api, manifest.fields["name"])
    given = {"attributes": attributes, "since": since, "until": until}
    told = api.ask(documents.PIPELINE_WHAT_IF, id=found["id"], **given)["pipelineWhatIf"]
    if output is not Format.TABLE:
        return show(told, _STEPS, output, "stage")
    show(told["steps"], _STEPS, output, "stage")
    for release in told["waiting"]:
        say(f"{release['releaseId']} would wait before {release['stage']}: {release['reason']}")


@app.command("skip")
def skip(
    context: typer.Context,
    pipeline: Name,
    gate: Annotated[str, typer.Argument(help="Name or id of the gate.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="Reason, kept in the history.")],
    output: Output = Format.TABLE,
) -> None:
    """Skip a gate for the release that waits there.

    \b
    Example:
      towline pipelines skip shop load-test -m "the test cluster is down, see incident 4711"
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
    release: Annotated[str, typer.Option(help="Release that the result is for.")],
    passed: Annotated[bool, typer.Option("--passed/--failed", help="Result of the gate.")],
    reason: Annotated[
        str, typer.Option("-m", "--reason", help="Reason, kept in the history.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Report the result of an EXTERNAL gate; sign in as the account that the gate names.

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
    reason: Annotated[
        str, typer.Option("-m", "--reason", help="Reason, kept in the history.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Start a release from the current commits of the first stage.

    \b
    Example:
      towline pipelines start shop -m "the sprint is done"
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "reason": reason}
    show(api.ask(documents.START_RELEASE, **given)["startRelease"], COLUMNS, output, "name")


@app.command("triggers")
def triggers(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """List the triggers of a pipeline, with the last value each one found.

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
    """Run a trigger's check now.

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
    reason: Annotated[
        str, typer.Option("-m", "--reason", help="Reason, shown while the pipeline waits.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Stop the rollout in a stage; `retry` continues it.

    \b
    Example:
      towline pipelines abort shop prod -m "latency doubles"
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "stage": stage, "reason": reason}
    show(api.ask(documents.ABORT_ROLLOUT, **given)["abortRollout"], COLUMNS, output, "name")


@app.command("acknowledge-rollback")
def acknowledge_rollback(
    context: typer.Context,
    pipeline: Name,
    stage: Annotated[str, typer.Argument(help="Name of the stage.")],
    output: Output = Format.TABLE,
) -> None:
    """Acknowledge the rollback of a stage, so that it accepts new releases.

    \b
    Example:
      towline pipelines acknowledge-rollback shop prod
    """
    api = connect(context)
    given = {"id": find_pipeline(api, pipeline)["id"], "stage": stage}
    show(api.ask(documents.LIFT_HOLD, **given)["acknowledgeRollback"], COLUMNS, output, "name")


@app.command("denied")
def list_denied(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List denied commits and digests.

    \b
    Example:
      towline pipelines denied
    """
    rows = connect(context).ask(documents.REFUSED_REVISIONS)["deniedRevisions"]
    show(rows, _DENIED, output, "revision")


@app.command("deny")
def deny(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Full commit SHA or digest.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="Reason, shown in the list.")],
    output: Output = Format.TABLE,
) -> None:
    """Deny a commit or digest: no pipeline promotes it.

    \b
    Example:
      towline pipelines deny 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c -m "loses orders"
    """
    done = connect(context).ask(documents.REFUSE_REVISION, revision=revision, reason=reason)
    show(done["denyRevision"], _DENIED, output, "revision")


@app.command("allow")
def allow(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Denied commit SHA or digest.")],
    output: Output = Format.TABLE,
) -> None:
    """Allow a denied commit or digest again.

    \b
    Example:
      towline pipelines allow 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c
    """
    done = connect(context).ask(documents.LIFT_REVISION, revision=revision)
    show(done["allowRevision"], _DENIED, output, "revision")


@app.command("resume")
def resume(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Resume a paused pipeline.

    \b
    Example:
      towline pipelines resume shop
    """
    _changed(context, documents.RESUME_PIPELINE, pipeline, output)


@app.command("delete")
def delete_pipeline(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Delete a pipeline; its services keep running.

    \b
    Example:
      towline pipelines delete shop
    """
    _changed(context, documents.DELETE_PIPELINE, pipeline, output)


def _changed(context: typer.Context, document: str, pipeline: str, output: Format) -> None:
    api: GraphQLApi = connect(context)
    (done,) = api.ask(document, id=find_pipeline(api, pipeline)["id"]).values()
    show(done, COLUMNS, output, "name")


def find_gate(pipeline: Json, name: str | None) -> tuple[Json, Json]:
    """Finds a gate by name or id, or the only one waiting for approval, with its edge or stage."""
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
        raise Invalid(f"several gates match; name one of {names}")
    if not gates:
        raise NotFound(f"could not find gate {name}" if name else "no gate is waiting for approval")
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
    return sorted({short(revision["sha"]) for revision in release["revisions"]}) if release else []


def _change(change: Row | None) -> str:
    """Git change of a release: the pull request, else the commit."""
    if change is None:
        return ""
    request = f"#{change['number']} " if change["number"] else ""
    return f"{request}{change['state'].lower()} {change['url'] or short(change['sha'] or '')}"


def _services(stage: Row) -> list[str]:
    services = [member["service"] for member in stage["services"]]
    return [
        f"{(service['cluster'] or {}).get('handle', '?')}/{service['name']}" for service in services
    ]
