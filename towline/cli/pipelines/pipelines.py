"""`towline pipelines …`."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Conflict
from towline.cli.manifests.manifests import read_sources
from towline.cli.manifests.values import fill_secret_values
from towline.cli.pipelines import generated as operations
from towline.cli.pipelines.find import find_gate, find_pipeline
from towline.cli.pipelines.generated import (
    DeniedRevision,
    Edge,
    Gate,
    GitChange,
    ManifestWhatIfSteps,
    Pipeline,
    PipelineDetails,
    PipelineDetailsHistory,
    PipelineDetailsTriggers,
    PipelineStages,
    Stage,
    StageRelease,
    StageRollout,
)
from towline.cli.projects.find import find_project_id
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import (
    Column,
    age,
    age_column,
    escape_controls,
    field,
    say,
    short,
    show,
)
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import DigestAttributes

app = typer.Typer(no_args_is_help=True, help="Pipelines: promote releases from stage to stage.")

Name = Annotated[str, typer.Argument(help="Name or id of the pipeline.")]
GateName = Annotated[
    str | None, typer.Argument(help="Name or id of the gate (default: the only waiting gate).")
]
Comment = Annotated[str, typer.Option("-m", "--comment", help="Comment, kept in the history.")]
COLUMNS: tuple[Column[Pipeline | PipelineDetails], ...] = (
    field("NAME"),
    Column("STAGES", lambda row: " → ".join(_stage_health(stage) for stage in row["stages"])),
    Column("WAITING FOR", lambda row: row["paused"] or "; ".join(_waiting_reasons(row))),
)
_STAGES: tuple[Column[Stage], ...] = (
    field("STAGE", "name"),
    field("HEALTH"),
    Column("RELEASE", lambda row: _release_id(row)),
    Column("ROLLED OUT", lambda row: _rollout_progress(row["rollout"])),
    Column("COMMIT", lambda row: ", ".join(_commits(row["release"]))),
    Column("GIT CHANGE", lambda row: _git_change(row["change"])),
    Column("SERVICES", lambda row: ", ".join(_service_labels(row))),
    Column("SILENT", lambda row: ", ".join(_silent_clusters(row))),
    Column("REASON", lambda row: row["hold"] or row["rollout"]["reason"] or row["reason"]),
)
_STEPS: tuple[Column[ManifestWhatIfSteps], ...] = (
    field("STAGE"),
    field("RELEASE", "releaseId"),
    Column("ACTUAL", lambda row: row["was"] or "not deployed"),
    Column("SIMULATED", lambda row: row["would"] or "not deployed"),
)
_TRIGGERS: tuple[Column[PipelineDetailsTriggers], ...] = (
    field("TRIGGER", "name"),
    field("TYPE"),
    field("STATE"),
    field("LAST VALUE", "value"),
    age_column("LAST CHECK", "checkedAt"),
    Column("REASON", lambda row: row["error"] or _git_change(row["change"]) or row["reason"]),
)
_DENIED: tuple[Column[DeniedRevision], ...] = (
    field("REVISION"),
    field("REASON"),
    field("BY", "actor"),
    age_column("SINCE", "insertedAt"),
    Column("PROJECT", lambda row: row["projectId"] or "all", ("projectId",), wide=True),
)
DenialProject = Annotated[
    str | None, typer.Option("--project", help="Only in this project (default: in all).")
]


class _PlacedGate(Gate):
    edge: str
    release: str


_GATES: tuple[Column[_PlacedGate], ...] = (
    field("EDGE"),
    field("GATE", "name"),
    field("TYPE"),
    field("STATE"),
    field("RELEASE"),
    field("REASON"),
)
_EVENTS: tuple[Column[PipelineDetailsHistory], ...] = (
    age_column("AGE", "at"),
    field("STAGE", "place"),
    field("RELEASE", "releaseId"),
    field("EVENT", "text"),
    field("BY", "actor"),
)


add_list(app, "towline pipelines list", "List pipelines.", operations.pipelines, COLUMNS, "name")


@app.command("get")
def get_pipeline(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Show the stages and gates of a pipeline, and waiting releases.

    \b
    Example:
      towline pipelines get shop
    """
    details = find_pipeline(connect(context), pipeline)
    if not output.is_table:
        return show(details, COLUMNS, output, "name")
    if details["paused"]:
        print(f"{escape_controls(details['paused'])}\n")
    show(details["stages"], _STAGES, output, "name")
    gates: list[_PlacedGate] = [
        {**gate, "edge": _edge_name(edge), "release": _release_id(edge)}
        for edge in details["edges"]
        for gate in edge["gates"]
    ]
    gates += [
        {**stage["workflow"], "edge": stage["name"], "release": _release_id(stage)}
        for stage in details["stages"]
        if stage["workflow"]
    ]
    if gates:
        print()
        show(gates, _GATES, output, "name")
    if details["history"]:
        print()
        show(details["history"][-10:], _EVENTS, output, "text")


def _service_names(pipeline: PipelineDetails) -> dict[str, str]:
    """CLUSTER/NAME of the services of all stages, by id."""
    listed = [member["service"] for stage in pipeline["stages"] for member in stage["services"]]
    return {
        service["id"]: f"{service['cluster']['handle']}/{service['name']}"
        for service in listed
        if service is not None and service["cluster"] is not None
    }


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
    details = find_pipeline(api, pipeline)
    edge, gate_row = find_gate(details, gate)
    waiting_release = _release_id(edge)
    if release is not None and release != waiting_release:
        raise Conflict(
            f"release {release} is not waiting at gate {gate_row['name']}; "
            f"waiting there: {waiting_release or 'none'}"
        )
    digests: list[DigestAttributes] = [
        {"serviceId": digest["serviceId"], "digest": digest["digest"]} for digest in edge["digests"]
    ]
    done = operations.approve_gate(api, gate_row["id"], digests=digests, comment=comment)
    names = _service_names(details)
    for digest in edge["digests"]:
        say(
            f"approved {short(digest['sha'])} with {digest['digest']} "
            f"for service {names.get(digest['serviceId'], digest['serviceId'])}"
        )
    show(done, COLUMNS, output, "name")


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
    _, gate_row = find_gate(find_pipeline(api, pipeline), gate)
    show(operations.reject_gate(api, gate_row["id"], comment=comment), COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.retry_pipeline(api, details["id"], stage), COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.pause_pipeline(api, details["id"], reason=reason), COLUMNS, output, "name")


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
    (source,) = fill_secret_values(api, read_sources([file]))
    replay = operations.manifest_what_if(api, source, since, until)
    if not output.is_table:
        return show(replay, (), output, "stage")
    show(replay["steps"], _STEPS, output, "stage")
    for release in replay["waiting"]:
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
    edge, gate_row = find_gate(find_pipeline(api, pipeline), gate)
    done = operations.skip_gate(api, gate_row["id"], _release_id(edge), reason)
    show(done, COLUMNS, output, "name")


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
    _, gate_row = find_gate(find_pipeline(api, pipeline), gate)
    done = operations.answer_gate(api, gate_row["id"], release, passed, reason)
    show(done, COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.start_release(api, details["id"], reason), COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.check_trigger(api, details["id"], trigger), COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.abort_rollout(api, details["id"], stage, reason), COLUMNS, output, "name")


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
    details = find_pipeline(api, pipeline)
    show(operations.acknowledge_rollback(api, details["id"], stage), COLUMNS, output, "name")


@app.command("denied")
def list_denied(context: typer.Context, output: Output = Format.TABLE) -> None:
    """List denied commits and digests.

    \b
    Example:
      towline pipelines denied
    """
    show(operations.denied_revisions(connect(context)), _DENIED, output, "revision")


@app.command("deny")
def deny(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Full commit SHA or digest.")],
    reason: Annotated[str, typer.Option("-m", "--reason", help="Reason, shown in the list.")],
    project: DenialProject = None,
    output: Output = Format.TABLE,
) -> None:
    """Deny a commit or digest: no pipeline promotes it, and no service gets it.

    \b
    Example:
      towline pipelines deny 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c -m "loses orders"
    """
    api = connect(context)
    denied = operations.deny_revision(
        api, revision, reason, project_id=find_project_id(api, project)
    )
    show(denied, _DENIED, output, "revision")


@app.command("allow")
def allow(
    context: typer.Context,
    revision: Annotated[str, typer.Argument(help="Denied commit SHA or digest.")],
    project: DenialProject = None,
    output: Output = Format.TABLE,
) -> None:
    """Allow a denied commit or digest again.

    \b
    Example:
      towline pipelines allow 8f0c2d61b7e94a35c1d2e3f405162738495a6b7c
    """
    api = connect(context)
    allowed = operations.allow_revision(api, revision, project_id=find_project_id(api, project))
    show(allowed, _DENIED, output, "revision")


@app.command("resume")
def resume(context: typer.Context, pipeline: Name, output: Output = Format.TABLE) -> None:
    """Resume a paused pipeline.

    \b
    Example:
      towline pipelines resume shop
    """
    _change_and_show(context, operations.resume_pipeline, pipeline, output)


@app.command("delete")
def delete_pipeline(
    context: typer.Context, pipeline: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a pipeline; its services keep running.

    \b
    Example:
      towline pipelines delete shop
    """
    confirm_deletion(f"pipeline {pipeline}", yes=yes)
    _change_and_show(context, operations.delete_pipeline, pipeline, output)


def _change_and_show(
    context: typer.Context,
    change: Callable[[GraphQLApi, str], Pipeline],
    pipeline: str,
    output: Format,
) -> None:
    api = connect(context)
    show(change(api, find_pipeline(api, pipeline)["id"]), COLUMNS, output, "name")


def _stage_health(stage: PipelineStages | Stage) -> str:
    return f"{stage['name']} {stage['health'].lower()}"


def _edge_name(edge: Edge) -> str:
    return f"{edge['from']['name']} → {edge['to']['name']}"


def _waiting_reasons(pipeline: Pipeline | PipelineDetails) -> list[str]:
    return [
        f"{edge['to']['name']}: {edge['reason']}" for edge in pipeline["edges"] if edge["release"]
    ]


def _rollout_progress(rollout: StageRollout) -> str:
    return f"{rollout['healthy']} of {sum(rollout['waves'])}" if rollout["given"] else ""


def _commits(release: StageRelease | None) -> list[str]:
    return sorted({short(revision["sha"]) for revision in release["revisions"]}) if release else []


def _git_change(change: GitChange | None) -> str:
    """Git change of a release: the pull request, else the commit."""
    if change is None:
        return ""
    request = f"#{change['number']} " if change["number"] else ""
    return f"{request}{change['state'].lower()} {change['url'] or short(change['sha'] or '')}"


def _service_labels(stage: Stage) -> list[str]:
    services = [member["service"] for member in stage["services"]]
    return [
        f"{service['cluster']['handle'] if service['cluster'] else '?'}/{service['name']}"
        for service in services
    ]


def _silent_clusters(stage: Stage) -> Iterator[str]:
    """Yields the silent clusters that a stage waits for or left out."""
    for member in stage["silent"]:
        cluster = member["service"]["cluster"]
        if cluster:
            status = "left out" if member["leftOut"] else "waited for"
            yield f"{cluster['handle']} ({status}, last seen {age(cluster['pingedAt'])})"


def _release_id(edge_or_stage: Edge | Stage) -> str:
    return edge_or_stage["release"]["id"] if edge_or_stage["release"] else ""
