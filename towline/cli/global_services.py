"""`towline globals …`."""

from typing import Annotated

import typer

from towline.cli import generator_documents
from towline.cli.generator_documents import GLOBALS
from towline.cli.generators import (
    COLUMNS,
    Confirm,
    Name,
    Tags,
    find,
    list_all,
    list_services,
    named,
    run_mutation,
)
from towline.cli.output import Column, Format, Row, field, show, since
from towline.cli.session import (
    Json,
    Output,
    Search,
    connect,
    find_cluster,
    find_repository,
    find_service,
    parse_pairs,
)

app = typer.Typer(no_args_is_help=True, help="Global services: one service on many clusters.")


def _delta(row: Row) -> str:
    parts = (f"{d['field']}: {d['inherited']} → {d['effective']}" for d in row["delta"])
    return "; ".join(parts)


CLUSTERS = (
    field("CLUSTER", "cluster", "handle"),
    Column("OVERRIDES", _delta),
    field("BY", "overriddenBy"),
    since("SINCE", "overriddenAt"),
)
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Value for templates, as name=value; repeatable.")
]
Cluster = Annotated[str, typer.Option(help="Handle or id of the cluster.")]


@app.command("list")
def list_globals(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List global services.

    \b
    Example:
      towline globals list
    """
    list_all(context, GLOBALS, query, output)


@app.command("create")
def create_global(
    context: typer.Context,
    name: Name,
    service: Annotated[
        str | None, typer.Option(help="Replicate this service, as CLUSTER/NAME.")
    ] = None,
    repo: Annotated[str | None, typer.Option(help="URL or id of the repository.")] = None,
    folder: Annotated[str, typer.Option(help="Folder in the repository.")] = "",
    ref: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main",
    namespace: Annotated[str, typer.Option(help="Target namespace.")] = "default",
    tag: Tags = None,
    setting: Settings = None,
    cascade: Annotated[
        bool,
        typer.Option(
            help="Delete objects from clusters that no longer match, instead of detaching them."
        ),
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Replicate a service, or a folder of a repository, to all matching clusters.

    \b
    Example:
      towline globals create monitoring --repo https://git.example.org/fleet.git \\
        --folder monitoring --namespace monitoring --tag tier=prod
      towline globals create monitoring --service home/monitoring
    """
    api = connect(context)
    attributes: Json = {"name": name, "tags": named(parse_pairs(tag, "tag"))}
    attributes["cascade"] = {"delete": cascade, "detach": not cascade}
    source = find_service(api, service)["id"] if service else None
    if repo:
        attributes["template"] = {
            "name": name,
            "namespace": namespace,
            "repositoryId": find_repository(api, repo)["id"],
            "git": {"ref": ref, "folder": folder},
            "configuration": named(parse_pairs(setting, "set")),
        }
    document = generator_documents.CREATE_FROM_SERVICE
    made = api.ask(document, serviceId=source, attributes=attributes)["createGlobalService"]
    show(made, COLUMNS, output, "name")


@app.command("clusters")
def list_clusters(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the clusters of a global service, with their overrides.

    \b
    Example:
      towline globals clusters monitoring
    """
    api = connect(context)
    id = find(api, GLOBALS, name)["id"]
    found = api.ask(generator_documents.GLOBAL_CLUSTERS, id=id)["globalServiceClusters"]
    show(found, CLUSTERS, output, "id")


@app.command("services")
def list_owned(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services of a global service.

    \b
    Example:
      towline globals services monitoring
    """
    list_services(context, GLOBALS, name, output)


@app.command("override")
def override(
    context: typer.Context,
    name: Name,
    cluster: Cluster,
    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None,
    folder: Annotated[str | None, typer.Option(help="Folder; requires --ref.")] = None,
    setting: Settings = None,
    without: Annotated[
        list[str] | None, typer.Option("--unset", help="Name of a value to remove; repeatable.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Set one cluster's overrides; without options, clear them.

    \b
    Example:
      towline globals override monitoring --cluster edge-1 --set replicas=1
      towline globals override monitoring --cluster edge-1
    """
    api = connect(context)
    found = find(api, GLOBALS, name)
    attributes: Json = {}
    values = named(parse_pairs(setting, "set")) + [{"name": name} for name in without or ()]
    if values:
        attributes["configuration"] = values
    if ref or folder:
        git = (found["template"] or {}).get("git") or {"ref": ref, "folder": folder}
        attributes["git"] = {"ref": ref or git["ref"], "folder": folder or git["folder"]}
    changed = api.ask(
        generator_documents.OVERRIDE,
        id=found["id"],
        clusterId=find_cluster(api, cluster)["id"],
        attributes=attributes,
    )
    show(changed["overrideGlobalService"], CLUSTERS, output, "id")


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Sync now.

    \b
    Example:
      towline globals sync monitoring --confirm 12
    """
    run_mutation(context, GLOBALS, GLOBALS.sync, name, output, confirm=confirm)


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete a global service; its policy decides what happens to its services.

    \b
    Example:
      towline globals delete monitoring
    """
    run_mutation(context, GLOBALS, GLOBALS.delete, name, output)
