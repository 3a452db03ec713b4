"""`towline globals …`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid
from towline.cli.clusters.find import find_cluster
from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_global_service
from towline.cli.generators.generated import ClusterOverride, GlobalService, TemplateGit
from towline.cli.generators.generators import COLUMNS, DefinitionCommands, Name, Tags
from towline.cli.repositories.find import find_known_repository
from towline.cli.services.find import find_service
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, count, field, say, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import (
    configuration_of,
    connect,
    name_value_pairs,
    parse_pairs,
)
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import (
        ConfigAttributes,
        GlobalOverrideAttributes,
        GlobalServiceAttributes,
        ServiceDeploymentAttributes,
    )

_MAX_NAMES = 10

app = typer.Typer(no_args_is_help=True, help="Global services: one service on many clusters.")


def _format_override(row: ClusterOverride) -> str:
    return "; ".join(
        f"{delta['field']}: {delta['inherited'] or '(none)'} → {delta['effective'] or '(none)'}"
        for delta in row["delta"]
    )


CLUSTERS: tuple[Column[ClusterOverride], ...] = (
    field("CLUSTER", "cluster", "handle"),
    Column("OVERRIDES", _format_override),
    field("BY", "overriddenBy"),
    age_column("SINCE", "overriddenAt", missing=""),
)
Settings = Annotated[
    list[str] | None, typer.Option("--set", help="Value for templates, as name=value; repeatable.")
]
Cluster = Annotated[str, typer.Option(help="Handle or id of the cluster.")]


add_list(
    app,
    "towline globals list",
    "List global services.",
    operations.global_services,
    COLUMNS,
    "name",
)


class GlobalServiceOptions(OptionGroup):
    """Options of a new global service."""

    service: Annotated[
        str | None, typer.Option(help="Replicate this service, as CLUSTER/NAME.")
    ] = None
    repo: Annotated[
        str | None,
        typer.Option(help="URL or id of the Git or OCI repository; an unknown URL is added."),
    ] = None
    folder: Annotated[str, typer.Option(help="Folder in the repository.")] = ""
    ref: Annotated[str, typer.Option(help="Branch, tag or commit.")] = "main"
    namespace: Annotated[str, typer.Option(help="Target namespace.")] = "default"
    tag: Tags = None
    all_clusters: Annotated[
        bool, typer.Option("--all-clusters", help="Deploy to every cluster, also to later ones.")
    ] = False
    setting: Settings = None
    cascade: Annotated[
        bool,
        typer.Option(
            help="Delete objects from clusters that no longer match, instead of detaching them."
        ),
    ] = False

    def template(self, name: str, repository_id: str | None) -> "ServiceDeploymentAttributes":
        """Builds the template for a folder of a repository."""
        return {
            "name": name,
            "namespace": self.namespace,
            "repositoryId": repository_id,
            "git": {"ref": self.ref, "folder": self.folder},
            "configuration": configuration_of(parse_pairs(self.setting, "set")),
        }


@app.command("create")
@option_groups
def create_global(
    context: typer.Context,
    name: Name,
    options: GlobalServiceOptions,
    output: Output = Format.TABLE,
) -> None:
    """Replicate a service, or a folder of a repository, to all matching clusters.

    Select the clusters with --tag, or use --all-clusters.

    \b
    Example:
      towline globals create monitoring --repo https://git.example.org/fleet.git \\
        --folder monitoring --namespace monitoring --tag tier=prod
      towline globals create monitoring --service home/monitoring --all-clusters
    """
    if bool(options.tag) == options.all_clusters:
        raise Invalid("select clusters with --tag, or use --all-clusters for every cluster")
    api = connect(context)
    attributes: GlobalServiceAttributes = {
        "name": name,
        "tags": name_value_pairs(parse_pairs(options.tag, "tag")),
        "cascade": {"delete": options.cascade, "detach": not options.cascade},
    }
    source = find_service(api, options.service)["id"] if options.service else None
    url = None
    if options.repo:
        repository_id = find_known_repository(api, options.repo)
        attributes["template"] = options.template(name, repository_id)
        url = options.repo if repository_id is None else None
    created = operations.create_global_service(
        api, attributes, service_id=source, repository_url=url
    )
    if url:
        say(f"added repository {url}")
    show(created, COLUMNS, output, "name")
    say(_describe_selection(api, created, options.tag or ()))


def _describe_selection(api: GraphQLApi, global_service: GlobalService, tags: Sequence[str]) -> str:
    """Describes which clusters a new global service selects."""
    rows = operations.global_service_clusters(api, global_service["id"])
    clusters = [row["cluster"]["handle"] for row in rows]
    if not clusters:
        where = f"has the tags {', '.join(tags)}" if tags else "is registered"
        return f"no cluster {where} yet; `towline clusters list -o wide` shows the tags of all"
    more = f" and {len(clusters) - _MAX_NAMES} more" if len(clusters) > _MAX_NAMES else ""
    return f"deploys to {count(len(clusters), 'cluster')}: {', '.join(clusters[:_MAX_NAMES])}{more}"


@app.command("clusters")
def list_clusters(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the clusters of a global service, with their overrides.

    \b
    Example:
      towline globals clusters monitoring
    """
    api = connect(context)
    id = find_global_service(api, name)["id"]
    show(operations.global_service_clusters(api, id), CLUSTERS, output, "id")


DefinitionCommands(
    *("globals", "global service", "monitoring"),
    find_global_service,
    operations.global_service_services,
    operations.sync_global_service,
    operations.delete_global_service,
).add_to(app)


class OverrideOptions(OptionGroup):
    """Options of one cluster's overrides."""

    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None
    folder: Annotated[str | None, typer.Option(help="Folder; requires --ref.")] = None
    setting: Settings = None
    without: Annotated[
        list[str] | None, typer.Option("--unset", help="Name of a value to remove; repeatable.")
    ] = None

    def attributes(self, git: TemplateGit | None) -> "GlobalOverrideAttributes":
        """Builds the attributes for the API; `git` is the ref and folder of the template."""
        attributes: GlobalOverrideAttributes = {}
        removed: list[ConfigAttributes] = [{"name": name} for name in self.without or ()]
        if values := configuration_of(parse_pairs(self.setting, "set")) + removed:
            attributes["configuration"] = values
        if self.ref or self.folder:
            attributes["git"] = {
                "ref": self.ref or (git["ref"] if git else ""),
                "folder": self.folder or (git["folder"] if git else ""),
            }
        return attributes


@app.command("override")
@option_groups
def override(
    context: typer.Context,
    name: Name,
    cluster: Cluster,
    options: OverrideOptions,
    output: Output = Format.TABLE,
) -> None:
    """Set one cluster's overrides; without options, clear them.

    \b
    Example:
      towline globals override monitoring --cluster edge-1 --set replicas=1
      towline globals override monitoring --cluster edge-1
    """
    api = connect(context)
    global_service = find_global_service(api, name)
    git = global_service["template"]["git"] if global_service["template"] else None
    attributes, overridden = options.attributes(git), find_cluster(api, cluster)
    handle = overridden["handle"]
    changed = operations.override_global_service(
        api, global_service["id"], overridden["id"], attributes
    )
    show(changed, CLUSTERS, output, "id")
    services = operations.global_service_services(api, global_service["id"])
    handles = {service["cluster"]["handle"] for service in services if service["cluster"]}
    if attributes and handle not in handles:
        say(f"{name} has no service in {handle} now; the override applies once it selects {handle}")
