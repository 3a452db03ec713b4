"""`towline cluster-sources …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.access.find import find_user
from towline.cli.cluster_sources import generated as operations
from towline.cli.cluster_sources.generated import ClusterSource, ClusterSourceMember
from towline.cli.clusters.find import find_cluster
from towline.cli.manifests.managers import fields_of, warn_of_managers
from towline.cli.projects.find import find_project
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, field, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect, enum_name, first_found, name_value_pairs, parse_pairs
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ClusterSourceAttributes

app = typer.Typer(
    no_args_is_help=True,
    help="Clusters from objects of Cluster API or of the Cluster Inventory API.",
)

_PAGE = 200
Name = Annotated[str, typer.Argument(help="Name of the cluster source.")]

COLUMNS: tuple[Column[ClusterSource], ...] = (
    field("NAME"),
    Column("STATE", lambda row: "SUSPENDED" if row["suspended"] else row["result"]),
    field("CLUSTER"),
    field("INVENTORY"),
    field("NAMESPACE"),
    field("SELECTOR"),
    age_column("CHECKED", "checkedAt"),
    field("MESSAGE"),
)
DETAILS: tuple[Column[ClusterSource], ...] = (
    *COLUMNS[:6],
    field("ACCOUNT", "serviceAccount"),
    field("NAMES", "nameTemplate"),
    field("GONE"),
    field("MAX", "maxClusters"),
    *COLUMNS[6:],
)
MEMBERS: tuple[Column[ClusterSourceMember], ...] = (
    field("NAMESPACE"),
    field("NAME"),
    field("STATE"),
    field("CLUSTER"),
    field("VERSION"),
    Column("MESSAGE", lambda row: row["message"] or _next_step(row), ("message",)),
)


class SourceOptions(OptionGroup):
    """Options of a cluster source."""

    service_account: Annotated[
        str | None,
        typer.Option(help="Service account that reads the objects and registers the clusters."),
    ] = None
    inventory: Annotated[
        str | None,
        typer.Option(help="Kind of the objects: cluster-api or cluster-profile."),
    ] = None
    namespace: Annotated[
        str | None, typer.Option(help="Namespace of the objects; empty: all namespaces.")
    ] = None
    objects: Annotated[
        str | None, typer.Option(help="Label selector of the objects, such as env=prod.")
    ] = None
    name_template: Annotated[
        str | None,
        typer.Option(help="Name of each cluster, from {name} and {namespace} of its object."),
    ] = None
    tag: Annotated[
        list[str] | None, typer.Option(help="Tag of all clusters, NAME=VALUE; repeatable.")
    ] = None
    tag_label: Annotated[
        list[str] | None, typer.Option(help="Label of the object that becomes a tag; repeatable.")
    ] = None
    gone: Annotated[
        str | None,
        typer.Option(help="Reaction to a deleted object: keep or delete the cluster's record."),
    ] = None
    max_clusters: Annotated[int | None, typer.Option(help="Maximum number of clusters.")] = None
    max_deletions: Annotated[
        int | None, typer.Option(help="Maximum number of clusters that one run deletes.")
    ] = None
    interval: Annotated[
        int | None, typer.Option(help="Seconds between two reconciliations, from 10.")
    ] = None

    def attributes(self, api: GraphQLApi) -> "ClusterSourceAttributes":
        """Builds the attributes for the API."""
        attributes: ClusterSourceAttributes = {
            "inventory": enum_name(self.inventory, "--inventory", "CLUSTER_API", "CLUSTER_PROFILE"),
            "namespace": self.namespace,
            "selector": self.objects,
            "nameTemplate": self.name_template,
            "tags": name_value_pairs(parse_pairs(self.tag, "--tag")) if self.tag else None,
            "tagLabels": self.tag_label,
            "gone": enum_name(self.gone, "--gone", "KEEP", "DELETE"),
            "maxClusters": self.max_clusters,
            "maxDeletions": self.max_deletions,
            "intervalSeconds": self.interval,
        }
        if self.service_account:
            attributes["serviceAccountId"] = find_user(api, self.service_account)["id"]
        return attributes


add_list(
    app,
    "towline cluster-sources list",
    "List cluster sources.",
    operations.cluster_sources,
    COLUMNS,
    "name",
)


@app.command("get")
def get_source(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Show the settings and the state of a cluster source.

    \b
    Example:
      towline cluster-sources get capi
    """
    show(_find(connect(context), name), DETAILS, output, "name")


@app.command("objects")
def objects(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the objects of a cluster source, with their clusters and the reason of each problem.

    \b
    Example:
      towline cluster-sources objects capi
    """
    api = connect(context)
    show(_members(api, _find(api, name)["id"]), MEMBERS, output, "name")


@app.command("create")
@option_groups
def create_source(
    context: typer.Context,
    name: Name,
    cluster: Annotated[str, typer.Option(help="Management cluster with the objects.")],
    *,
    project: Annotated[
        str | None, typer.Option(help="Project of the source and of its clusters.")
    ] = None,
    options: SourceOptions,
    output: Output = Format.TABLE,
) -> None:
    """Register the clusters that a management cluster describes.

    Clusters of Cluster API get an agent, and join by themselves.

    \b
    Example:
      towline cluster-sources create capi --cluster hub-1 --service-account ci@service-accounts \\
        --namespace fleet --tag from=capi --tag-label env
    """
    api = connect(context)
    attributes: ClusterSourceAttributes = {"name": name, **options.attributes(api)}
    attributes["clusterId"] = find_cluster(api, cluster)["id"]
    if project:
        attributes["projectId"] = find_project(api, project)["id"]
    show(operations.create_cluster_source(api, attributes), COLUMNS, output, "name")


@app.command("update")
@option_groups
def update_source(
    context: typer.Context,
    name: Name,
    cluster: Annotated[
        str | None, typer.Option(help="Management cluster with the objects.")
    ] = None,
    *,
    options: SourceOptions,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields of a cluster source.

    \b
    Example:
      towline cluster-sources update capi --objects env=prod --gone delete
    """
    api = connect(context)
    source, attributes = _find(api, name), options.attributes(api)
    if cluster:
        attributes["clusterId"] = find_cluster(api, cluster)["id"]
    row = operations.update_cluster_source(api, source["id"], attributes)
    show(row, COLUMNS, output, "name")
    warn_of_managers(api, "ClusterSource", row["name"], fields_of(attributes))


@app.command("sync")
def sync(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Read the objects now.

    \b
    Example:
      towline cluster-sources sync capi
    """
    api = connect(context)
    show(operations.sync_cluster_source(api, _find(api, name)["id"]), COLUMNS, output, "name")


@app.command("suspend")
def suspend(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Stop a cluster source, until `resume`.

    \b
    Example:
      towline cluster-sources suspend capi
    """
    _set_suspended(context, name, output, suspended=True)


@app.command("resume")
def resume(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Start a suspended cluster source again.

    \b
    Example:
      towline cluster-sources resume capi
    """
    _set_suspended(context, name, output, suspended=False)


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a cluster source, and keep its clusters.

    \b
    Example:
      towline cluster-sources delete capi
    """
    confirm_deletion(f"cluster source {name}", yes=yes)
    api = connect(context)
    show(operations.delete_cluster_source(api, _find(api, name)["id"]), COLUMNS, output, "name")


def _set_suspended(context: typer.Context, name: str, output: Format, *, suspended: bool) -> None:
    api = connect(context)
    id = _find(api, name)["id"]
    row = operations.update_cluster_source(api, id, {"suspended": suspended})
    show(row, COLUMNS, output, "name")
    warn_of_managers(api, "ClusterSource", row["name"], ["suspended"])


def _find(api: GraphQLApi, name: str) -> ClusterSource:
    return first_found(
        f"cluster source {name}",
        lambda: operations.cluster_source(api, name=name),
        listed_by="cluster-sources list",
    )


def _members(api: GraphQLApi, id: str) -> list[ClusterSourceMember]:
    members: list[ClusterSourceMember] = []
    cursor = None
    while True:
        page = operations.cluster_source_objects(api, id, first=_PAGE, after=cursor)["members"]
        members += [edge["node"] for edge in page["edges"]]
        if not page["pageInfo"]["hasNextPage"]:
            return members
        cursor = page["pageInfo"]["endCursor"]


def _next_step(row: ClusterSourceMember) -> str:
    """Returns the command that installs the agent of a cluster that waits for one."""
    if row["state"] != "AWAITING_AGENT" or not row["cluster"]:
        return ""
    return f"towline clusters join {row['cluster']} --print --adopt"
