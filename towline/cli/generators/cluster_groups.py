"""`towline cluster-groups …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.clusters.find import find_cluster
from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_group
from towline.cli.generators.generated import (
    ClusterGroup,
    ClusterGroupClusters,
    UpgradeAgents,
)
from towline.cli.generators.generators import Name, Tags
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_column, field, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect, name_value_pairs, parse_pairs

if TYPE_CHECKING:
    from towline.generated_inputs import ClusterGroupAttributes

app = typer.Typer(no_args_is_help=True, help="Cluster groups: members, freezes and agent upgrades.")

COLUMNS: tuple[Column[ClusterGroup], ...] = (
    field("NAME"),
    field("FROZEN"),
    field("REASON", "frozenReason"),
    field("FROZEN BY", "frozenBy"),
    age_column("SINCE", "frozenAt", missing=""),
)
CLUSTERS: tuple[Column[ClusterGroupClusters], ...] = (
    field("HANDLE"),
    field("NAME"),
    age_column("LAST SEEN", "pingedAt"),
)
UPGRADED: tuple[Column[UpgradeAgents], ...] = (
    field("HANDLE"),
    field("AGENT", "agentVersion"),
    age_column("LAST SEEN", "pingedAt"),
)
Clusters = Annotated[
    list[str] | None, typer.Option("--cluster", help="Handle or id of a cluster; repeatable.")
]


add_list(
    app,
    "towline cluster-groups list",
    "List cluster groups.",
    operations.cluster_groups,
    COLUMNS,
    "name",
)


@app.command("create")
def create_group(
    context: typer.Context,
    name: Name,
    tag: Tags = None,
    cluster: Clusters = None,
    max_changing: Annotated[
        int,
        typer.Option(
            help="Maximum number of clusters that pipelines change at the same time; 0: no limit."
        ),
    ] = 0,
    output: Output = Format.TABLE,
) -> None:
    """Create a group of the named clusters and of all clusters that have every given tag.

    \b
    Example:
      towline cluster-groups create eu --tag region=eu
    """
    api = connect(context)
    attributes: ClusterGroupAttributes = {
        "name": name,
        "tags": name_value_pairs(parse_pairs(tag, "tag")),
        "clusterIds": [find_cluster(api, name)["id"] for name in cluster or ()],
        "maxChanging": max_changing,
    }
    show(operations.create_cluster_group(api, attributes), COLUMNS, output, "name")


@app.command("clusters")
def list_members(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the clusters that are in a group now.

    \b
    Example:
      towline cluster-groups clusters eu
    """
    api = connect(context)
    id = find_group(api, name)["id"]
    show(operations.cluster_group_clusters(api, id), CLUSTERS, output, "handle")


@app.command("freeze")
def freeze(
    context: typer.Context,
    name: Name,
    reason: Annotated[str, typer.Option(help="Reason, shown in every refused change.")] = "",
    output: Output = Format.TABLE,
) -> None:
    """Stop all changes to services in the group's clusters, until `unfreeze`.

    \b
    Example:
      towline cluster-groups freeze eu --reason "end of the quarter"
    """
    api = connect(context)
    id = find_group(api, name)["id"]
    show(operations.freeze_cluster_group(api, id, reason=reason), COLUMNS, output, "name")


@app.command("unfreeze")
def unfreeze(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """End a freeze; waiting changes start now.

    \b
    Example:
      towline cluster-groups unfreeze eu
    """
    api = connect(context)
    id = find_group(api, name)["id"]
    show(operations.unfreeze_cluster_group(api, id), COLUMNS, output, "name")


@app.command("upgrade-agents")
def upgrade_agents(
    context: typer.Context,
    name: Name,
    version: Annotated[str, typer.Option(help="Target version of the agents.")],
    image: Annotated[str, typer.Option(help="Container image with that version.")],
    without: Annotated[
        list[str] | None, typer.Option("--exclude", help="A cluster to leave out; repeatable.")
    ] = None,
    output: Output = Format.TABLE,
) -> None:
    """Upgrade the agents of a group's clusters; prints the clusters that were asked to upgrade.

    Clusters with the tag towline-agent=keep are left out. An agent goes back to its old version
    if the new one does not connect.

    \b
    Example:
      towline cluster-groups upgrade-agents eu --version 0.2.0 \\
        --image registry.example.org/towline:0.2.0 --exclude eu-old
    """
    api = connect(context)
    upgraded = operations.upgrade_agents(
        api,
        find_group(api, name)["id"],
        version,
        image,
        without=[find_cluster(api, name)["id"] for name in without or ()],
    )
    show(upgraded, UPGRADED, output, "handle")


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a group that no selector refers to.

    \b
    Example:
      towline cluster-groups delete eu
    """
    confirm_deletion(f"cluster group {name}", yes=yes)
    api = connect(context)
    id = find_group(api, name)["id"]
    show(operations.delete_cluster_group(api, id), COLUMNS, output, "name")
