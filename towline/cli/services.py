"""`towline services …`."""

from typing import Annotated, Any

import typer

from fleet.errors import Invalid, NotFound
from towline.cli import documents
from towline.cli.confirming import attributes_of, chosen, name_of
from towline.cli.diffs import diff_service
from towline.cli.output import Column, Format, Row, field, say, short, show, since
from towline.cli.session import (
    Api,
    Json,
    Output,
    Search,
    connect,
    every,
    find_cluster,
    find_repository,
    find_service,
    pairs,
)
from towline.cli.waiting import seconds, until
from towline.cli.why import explain

app = typer.Typer(no_args_is_help=True, help="What runs where, and from which commit.")

Name = Annotated[str, typer.Argument(metavar="CLUSTER/NAME", help="Or the id of the service.")]
Setting = Annotated[
    list[str] | None, typer.Option("--set", help="key=value for templates; may be repeated.")
]
COLUMNS = (
    Column("SERVICE", lambda row: label(row)),
    field("STATUS"),
    Column("COMMIT", lambda row: short(row["sha"])),
    field("REF", "git", "ref"),
    since("SEEN", "observedAt"),
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
    """How a service is named to people: `prod/web`."""
    return f"{(service['cluster'] or {}).get('handle', '?')}/{service['name']}"


def first_problem(service: Row) -> str:
    """The first of its errors, empty without any."""
    return service["errors"][0]["message"] if service["errors"] else ""


@app.command("list")
def list_services(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Only those of a cluster.")] = None,
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
    folder: Annotated[str, typer.Option(help="Folder of the repository.")],
    namespace: Annotated[str, typer.Option(help="Namespace of its objects.")],
    ref: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main",
    kustomize: Annotated[str | None, typer.Option(help="Kustomization below the folder.")] = None,
    setting: Setting = None,
    protect: Annotated[bool, typer.Option(help="Refuse deletion.")] = False,
    promoted: Annotated[bool, typer.Option(help="Wait for a pipeline to bring commits.")] = False,
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
    folder: Annotated[str | None, typer.Option(help="Folder of the repository.")] = None,
    kustomize: Annotated[str | None, typer.Option(help="Kustomization below the folder.")] = None,
    setting: Setting = None,
    protect: Annotated[bool | None, typer.Option(help="Refuse deletion.")] = None,
    paused: Annotated[
        bool | None, typer.Option("--pause/--resume", help="Leave the cluster as it is.")
    ] = None,
    soak: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Go back from what was not healthy for so long; 0: never.",
        ),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Change what is given; all else stays.

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
        before = {one["name"]: one["value"] for one in found["configuration"]}
        given["configuration"] = [
            {"name": key, "value": value}
            for key, value in (before | pairs(setting, "--set")).items()
        ]
    attributes = {key: value for key, value in given.items() if value is not None}
    if not attributes:
        raise Invalid("nothing to change was given")
    changed = api.ask(documents.UPDATE_SERVICE, id=found["id"], attributes=attributes)
    _show(changed["updateServiceDeployment"], output)


@app.command("delete")
def delete_service(
    context: typer.Context,
    service: Name,
    detach: Annotated[bool, typer.Option(help="Leave its objects in the cluster.")] = False,
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
    """Look for commits, and check against the cluster, now.

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
        typer.Argument(metavar="OBJECT", help="kind/name or kind/namespace/name: only these."),
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Let deletions that wait for a person begin: those that are named, or all.

    Prints what will be deleted to standard error before it asks for it.

    \b
    Example:
      towline services confirm dev/web PersistentVolumeClaim/shop/data
    """
    api = connect(context)
    id = find_service(api, service)["id"]
    awaiting = api.ask(documents.AWAITING, id=id)["serviceDeployment"]["awaiting"]
    going = chosen(awaiting, objects or ())
    say("\n".join(f"deletes {name_of(one)}" for one in going))
    named = [attributes_of(one) for one in going]
    changed = api.ask(documents.CONFIRM_DELETIONS, id=id, objects=named)
    _show(changed["confirmDeletions"], output)


@app.command("history")
def show_history(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """Show what happened to a service, newest first.

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
        str | None, typer.Option(help="Revision id or commit; the one before, if not given.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Return to an earlier revision and hold there, until `services release`.

    \b
    Example:
      towline services rollback prod-eu/web --to 3f2c1ab
    """
    api = connect(context)
    found = find_service(api, service)
    revision = _revision(api, found, to)
    changed = api.ask(documents.ROLL_BACK_SERVICE, id=found["id"], revisionId=revision["id"])
    _show(changed["rollbackService"], output)


@app.command("release")
def release(context: typer.Context, service: Name, output: Output = Format.TABLE) -> None:
    """End a rollback's hold: follow the ref again.

    \b
    Example:
      towline services release prod-eu/web
    """
    _change(context, documents.RELEASE_SERVICE, service, output)


app.command("diff")(diff_service)


@app.command("why")
def why(context: typer.Context, service: Name) -> None:
    """Tell stage by stage how far a commit has come, and what it waits for.

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
    sha: Annotated[str | None, typer.Option(help="Only with this commit.")] = None,
    timeout: Annotated[str, typer.Option(help="How long, such as 90s or 15m.")] = "5m",
    output: Output = Format.TABLE,
) -> None:
    """Wait until a service has a status; exit code 6 if it has not by then.

    \b
    Example:
      towline services wait dev/web --sha $(git rev-parse HEAD) --timeout 2m
    """
    api = connect(context)
    limit = seconds(timeout, "--timeout")

    def done(seen: Json) -> bool:
        is_meant = not sha or (seen["sha"] or "").startswith(sha)
        return is_meant and seen["status"] == status.upper()

    say(f"waiting for {service} to be {status.upper()}")
    _show(until(lambda: find_service(api, service), done, limit, describe=_standing), output)


def configuration(setting: list[str] | None) -> list[Json] | None:
    """`--set` options as the API takes them; None without any."""
    given = pairs(setting, "--set")
    return [{"name": key, "value": value} for key, value in given.items()] or None


def _standing(service: Row) -> str:
    text = f"{label(service)} is {service['status']} at {short(service['sha']) or 'no commit'}"
    problem = first_problem(service)
    return f"{text}: {problem}" if problem else text


def _revision(api: Api, service: Json, wanted: str | None) -> Json:
    rows = every(api, documents.REVISIONS, serviceId=service["id"])
    now = (service["revision"] or {}).get("id")
    if wanted is None:
        earlier = [one for one in rows if one["id"] != now and one["digest"] != service["digest"]]
    else:
        earlier = [one for one in rows if one["id"] == wanted or one["sha"].startswith(wanted)]
    if not earlier:
        what = f"revision {wanted}" if wanted else "earlier revision"
        raise NotFound(f"{label(service)} has no {what}")
    return earlier[0]


def _change(context: typer.Context, document: str, service: str, output: Format) -> None:
    api = connect(context)
    (changed,) = api.ask(document, id=find_service(api, service)["id"]).values()
    _show(changed, output)


def _show(rows: Json | list[Json], output: Format) -> None:
    named = [{**one, "label": label(one)} for one in ([rows] if isinstance(rows, dict) else rows)]
    if output is Format.NAME:
        show(named, COLUMNS, output, "label")
    else:
        show(rows, COLUMNS, output, "name")
