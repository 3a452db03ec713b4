"""`towline services …`."""

from typing import Annotated, Any

import typer

from core.errors import Invalid, NotFound
from towline.cli.services.explain import explain
from towline.cli.services.pending_deletions import attributes_of, name_of, select_deletions
from towline.cli.services.service_diff import diff_service
from towline.cli.shell import documents
from towline.cli.shell.output import Column, Format, Row, field, say, short, show, since
from towline.cli.shell.polling import poll_until, seconds
from towline.cli.shell.session import (
    GraphQLApi,
    Json,
    Output,
    Search,
    connect,
    every,
    find_cluster,
    find_repository,
    find_service,
    parse_pairs,
)

app = typer.Typer(no_args_is_help=True, help="Services: their state, commits and rollbacks.")

Name = Annotated[
    str, typer.Argument(metavar="CLUSTER/NAME", help="Service, by cluster and name, or by id.")
]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="Value for templates, as key=value; repeatable.")
]
COLUMNS = (
    Column("SERVICE", lambda row: label(row)),
    field("STATUS"),
    Column("COMMIT", lambda row: short(row["sha"])),
    field("REF", "git", "ref"),
    since("LAST SEEN", "observedAt"),
    Column("PROBLEM", lambda row: first_problem(row)),
)
_HISTORY = (
    field("AT"),
    field("STAGE"),
    Column("COMMIT", lambda row: short(row["sha"])),
    Column("DIGEST", lambda row: short(row["digest"])),
    field("BY", "actor"),
    field("MESSAGE"),
)


def label(service: Row) -> str:
    """Name of a service in messages: `prod/web`."""
    return f"{(service['cluster'] or {}).get('handle', '?')}/{service['name']}"


def first_problem(service: Row) -> str:
    """First error of a service, or an empty string."""
    return service["errors"][0]["message"] if service["errors"] else ""


@app.command("list")
def list_services(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Filter by cluster, by handle or id.")] = None,
    query: Search = None,
    output: Output = Format.TABLE,
) -> None:
    """List services.

    \b
    Example:
      towline services list --cluster prod-eu
    """
    api = connect(context)
    cluster_id = find_cluster(api, cluster)["id"] if cluster else None
    rows = every(api, documents.SERVICES, q=query, clusterId=cluster_id)
    _show(rows, output)


@app.command("get")
def get_service(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """Show a service and its objects.

    \b
    Example:
      towline services get prod-eu/web
    """
    found = find_service(connect(context), service)
    _show(found, output)
    if output is Format.TABLE and found["components"]:
        print()
        columns = (field("KIND"), field("NAMESPACE"), field("NAME"), field("STATE"))
        show(found["components"], (*columns, field("MESSAGE")), output, "name")


@app.command("create")
def create_service(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the service in its cluster.")],
    cluster: Annotated[str, typer.Option(help="Handle or id of the cluster.")],
    repo: Annotated[str, typer.Option(help="URL or id of the repository.")],
    folder: Annotated[str, typer.Option(help="Folder in the repository.")],
    namespace: Annotated[str, typer.Option(help="Target namespace.")],
    ref: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main",
    kustomize: Annotated[
        str | None, typer.Option(help="Path of the kustomization in the folder.")
    ] = None,
    setting: Setting = None,
    protect: Annotated[bool, typer.Option(help="Protect the service from deletion.")] = False,
    promoted: Annotated[bool, typer.Option(help="Take commits only from a pipeline.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Deploy a folder of a repository to a cluster.

    \b
    Example:
      towline services create web --cluster dev --namespace shop \\
        --repo https://git.example.org/shop.git --folder deploy/dev
    """
    api = connect(context)
    attributes: Json = {
        "name": name,
        "namespace": namespace,
        "protect": protect,
        "promoted": promoted,
        "repositoryId": find_repository(api, repo)["id"],
        "git": {"ref": ref, "folder": folder},
        "kustomize": {"path": kustomize} if kustomize else None,
        "configuration": configuration(setting),
    }
    cluster_id = find_cluster(api, cluster)["id"]
    made = api.ask(documents.CREATE_SERVICE, clusterId=cluster_id, attributes=attributes)
    _show(made["createServiceDeployment"], output)


@app.command("update")
def update_service(
    context: typer.Context,
    service: Name,
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    folder: Annotated[str | None, typer.Option(help="Folder in the repository.")] = None,
    kustomize: Annotated[
        str | None, typer.Option(help="Path of the kustomization in the folder.")
    ] = None,
    setting: Setting = None,
    protect: Annotated[bool | None, typer.Option(help="Protect the service from deletion.")] = None,
    paused: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Pause or resume changes in the cluster."),
    ] = None,
    soak: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Roll back if not healthy within SECONDS (0 = never).",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields.

    \b
    Example:
      towline services update dev/web --ref release-2
    """
    api = connect(context)
    found = find_service(api, service)
    git = found["git"] or {}
    given: dict[str, Any] = {"protect": protect, "paused": paused}
    if soak is not None:
        given["verification"] = {"soakSeconds": soak}
    if ref or folder is not None:
        given["git"] = {
            "ref": ref or git.get("ref"),
            "folder": git.get("folder") if folder is None else folder,
        }
    if kustomize:
        given["kustomize"] = {"path": kustomize}
    if setting:
        before = {entry["name"]: entry["value"] for entry in found["configuration"]}
        given["configuration"] = [
            {"name": key, "value": value}
            for key, value in (before | parse_pairs(setting, "--set")).items()
        ]
    attributes = {key: value for key, value in given.items() if value is not None}
    if not attributes:
        raise Invalid("nothing to update; give at least one option, see --help")
    changed = api.ask(documents.UPDATE_SERVICE, id=found["id"], attributes=attributes)
    _show(changed["updateServiceDeployment"], output)


@app.command("delete")
def delete_service(
    context: typer.Context,
    service: Name,
    detach: Annotated[bool, typer.Option(help="Keep its objects in the cluster.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a service and its objects.

    \b
    Example:
      towline services delete dev/web
    """
    document = documents.DETACH_SERVICE if detach else documents.DELETE_SERVICE
    _change(context, document, service, output)


@app.command("sync")
def sync_service(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """Sync now: check for new commits, and compare with the cluster.

    \b
    Example:
      towline services sync dev/web
    """
    _change(context, documents.SYNC_SERVICE, service, output)


@app.command("confirm")
def confirm_deletions(
    context: typer.Context,
    service: Name,
    objects: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="OBJECT", help="Only this object, as kind/name or kind/namespace/name."
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Confirm pending deletions: the named objects, or all.

    Prints the objects to delete to standard error first.

    \b
    Example:
      towline services confirm dev/web PersistentVolumeClaim/shop/data
    """
    api = connect(context)
    id = find_service(api, service)["id"]
    awaiting = api.ask(documents.AWAITING, id=id)["serviceDeployment"]["awaiting"]
    going = select_deletions(awaiting, objects or ())
    say("\n".join(f"deletes {name_of(deletion)}" for deletion in going))
    named = [attributes_of(deletion) for deletion in going]
    changed = api.ask(documents.CONFIRM_DELETIONS, id=id, objects=named)
    _show(changed["confirmDeletions"], output)


@app.command("history")
def show_history(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """Show the history of a service, newest first.

    \b
    Example:
      towline services history prod-eu/web
    """
    api = connect(context)
    found = find_service(api, service)
    data = api.ask(documents.LEDGER, serviceId=found["id"], first=100)
    rows = [edge["node"] for edge in data["ledger"]["edges"]]
    show(rows, _HISTORY, output, "id")


@app.command("rollback")
def roll_back(
    context: typer.Context,
    service: Name,
    to: Annotated[
        str | None, typer.Option(help="Revision id or commit (default: the previous revision).")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Roll back to an earlier revision, and stay there until `services unpin`.

    \b
    Example:
      towline services rollback prod-eu/web --to 3f2c1ab
    """
    api = connect(context)
    found = find_service(api, service)
    revision = _revision(api, found, to)
    changed = api.ask(documents.ROLL_BACK_SERVICE, id=found["id"], revisionId=revision["id"])
    _show(changed["rollbackService"], output)


@app.command("unpin")
def unpin(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """Unpin a service after a rollback, so that it follows its ref again.

    \b
    Example:
      towline services unpin prod-eu/web
    """
    _change(context, documents.RELEASE_SERVICE, service, output)


app.command("diff")(diff_service)


@app.command("why")
def why(context: typer.Context, service: Name) -> None:
    """Explain, stage by stage, how far a commit has come and what blocks it.

    \b
    Example:
      towline services why prod-eu/web
    """
    print(*explain(connect(context), service), sep="\n")


@app.command("wait")
def wait(
    context: typer.Context,
    service: Name,
    status: Annotated[str, typer.Option("--for", help="Status to wait for.")] = "HEALTHY",
    sha: Annotated[str | None, typer.Option(help="Wait for this commit.")] = None,
    timeout: Annotated[str, typer.Option(help="Maximum time to wait, such as 90s or 15m.")] = "5m",
    output: Output = Format.TABLE,
) -> None:
    """Wait until a service reaches a status; exit code 6 on timeout.

    \b
    Example:
      towline services wait dev/web --sha $(git rev-parse HEAD) --timeout 2m
    """
    api = connect(context)
    limit = seconds(timeout, "--timeout")

    def done(seen: Json) -> bool:
        is_meant = not sha or (seen["sha"] or "").startswith(sha)
        return is_meant and seen["status"] == status.upper()

    def describe(seen: Json) -> str:
        return _standing(seen, status.upper())

    say(f"waiting for {service} to be {status.upper()}")
    _show(poll_until(lambda: find_service(api, service), done, limit, describe=describe), output)


def configuration(setting: list[str] | None) -> list[Json] | None:
    """Converts `--set` options for the API; None without any."""
    given = parse_pairs(setting, "--set")
    return [{"name": key, "value": value} for key, value in given.items()] or None


def _standing(service: Row, wanted: str) -> str:
    found, commit = service["status"], short(service["sha"]) or "no commit"
    text = f"{label(service)} is {found}{f', not {wanted},' if found != wanted else ''} at {commit}"
    problem = first_problem(service)
    return f"{text}: {problem}" if problem else text


def _revision(api: GraphQLApi, service: Json, wanted: str | None) -> Json:
    rows = every(api, documents.REVISIONS, serviceId=service["id"])
    now = (service["revision"] or {}).get("id")
    if wanted is None:
        earlier = [row for row in rows if row["id"] != now and row["digest"] != service["digest"]]
    else:
        earlier = [row for row in rows if row["id"] == wanted or row["sha"].startswith(wanted)]
    if not earlier:
        what = f"revision {wanted}" if wanted else "earlier revision"
        raise NotFound(f"{label(service)} has no {what}")
    return earlier[0]


def _change(context: typer.Context, document: str, service: str, output: Format) -> None:
    api = connect(context)
    (changed,) = api.ask(document, id=find_service(api, service)["id"]).values()
    _show(changed, output)


def _show(rows: Json | list[Json], output: Format) -> None:
    named = [{**row, "label": label(row)} for row in ([rows] if isinstance(rows, dict) else rows)]
    if output is Format.NAME:
        show(named, COLUMNS, output, "label")
    else:
        show(rows, COLUMNS, output, "name")
