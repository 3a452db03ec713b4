"""`towline cluster-groups …`."""

from typing import Annotated

import typer

from towline.cli import generator_documents
from towline.cli.generator_documents import GROUPS
from towline.cli.generators import Name, Tags, find, named
from towline.cli.output import Format, field, show, since
from towline.cli.session import Output, Search, connect, every, find_cluster, parse_pairs

app = typer.Typer(no_args_is_help=True, help="Cluster groups: members, freezes and agent upgrades.")

COLUMNS = (
    field("NAME"),
    field("FROZEN"),
    field("REASON", "frozenReason"),
    field("FROZEN BY", "frozenBy"),
    since("SINCE", "frozenAt"),
)
CLUSTERS = (field("HANDLE"), field("NAME"), since("LAST SEEN", "pingedAt"))
UPGRADED = (field("HANDLE"), field("AGENT", "agentVersion"), since("LAST SEEN", "pingedAt"))
Clusters = Annotated[
    list[str] | None, typer.Option("--cluster", help="Handle or id of a cluster; repeatable.")
]


@app.command("list")
def list_groups(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List cluster groups.

    \b
    Example:
      towline cluster-groups list
    """
    show(every(connect(context), GROUPS.every, q=query), COLUMNS, output, "name")


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
    attributes = {
        "name": name,
        "tags": named(parse_pairs(tag, "tag")),
        "clusterIds": [find_cluster(api, name)["id"] for name in cluster or ()],
        "maxChanging": max_changing,
    }
    made = api.ask(GROUPS.create, attributes=attributes)["createClusterGroup"]
    show(made, COLUMNS, output, "name")


@app.command("clusters")
def list_members(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the clusters that are in a group now.

    \b
    Example:
      towline cluster-groups clusters eu
    """
    api = connect(context)
    id = find(api, GROUPS, name)["id"]
    found = api.ask(generator_documents.GROUP_CLUSTERS, id=id)["clusterGroupClusters"]
    show(found, CLUSTERS, output, "handle")


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
    id = find(api, GROUPS, name)["id"]
    changed = api.ask(generator_documents.FREEZE, id=id, reason=reason)["freezeClusterGroup"]
    show(changed, COLUMNS, output, "name")


@app.command("unfreeze")
def unfreeze(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """End a freeze; waiting changes start now.

    \b
    Example:
      towline cluster-groups unfreeze eu
    """
    api = connect(context)
    id = find(api, GROUPS, name)["id"]
    changed = api.ask(generator_documents.UNFREEZE, id=id)["unfreezeClusterGroup"]
    show(changed, COLUMNS, output, "name")


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
    asked = api.ask(
        generator_documents.UPGRADE_AGENTS,
        groupId=find(api, GROUPS, name)["id"],
        version=version,
        image=image,
        without=[find_cluster(api, name)["id"] for name in without or ()],
    )["upgradeAgents"]
    show(asked, UPGRADED, output, "handle")


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete a group that no selector refers to.

    \b
    Example:
      towline cluster-groups delete eu
    """
    api = connect(context)
    gone = api.ask(GROUPS.delete, id=find(api, GROUPS, name)["id"])["deleteClusterGroup"]
    show(gone, COLUMNS, output, "name")
