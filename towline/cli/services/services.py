"""`towline services …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Invalid
from towline.cli.clusters.find import find_cluster, find_cluster_id
from towline.cli.manifests.managers import warn_of_managers
from towline.cli.projects.find import find_project_id
from towline.cli.repositories.find import OCI_SCHEME, find_known_repository
from towline.cli.services import generated as operations
from towline.cli.services.changes import pause, resume, roll_back, sync, unpin
from towline.cli.services.columns import COLUMNS, ROW_COLUMNS
from towline.cli.services.deletion import describe_deletion, wait_for_deletion
from towline.cli.services.explain import explain
from towline.cli.services.find import ServiceName, find_service, label
from towline.cli.services.generated import (
    LedgerEvent,
    Service,
    ServiceDetailsComponents,
)
from towline.cli.services.object_names import attributes_of, name_of
from towline.cli.services.pending_deletions import select_deletions
from towline.cli.services.reasons import PROBLEMS, by_urgency
from towline.cli.services.service_diff import diff_service
from towline.cli.services.service_manifests import show_manifests
from towline.cli.services.views import filter_of_view
from towline.cli.services.waiting import (
    WantedState,
    status_of,
    wait_for_service,
)
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, field, say, short, show
from towline.cli.shell.polling import seconds
from towline.cli.shell.selectors import Selector, fields_of
from towline.cli.shell.session import Search, configuration_of, connect, parse_pairs
from towline.cli.shell.timeouts import DEFAULT_TIMEOUT, Timeout, WithWait, timeout_of
from towline.cli.views.filters import View
from towline.input_files import read_text
from towline.operations import LARGE_PAGE, GraphQLApi, pages

if TYPE_CHECKING:
    from towline.generated_inputs import ServiceDeploymentAttributes, ServiceUpdateAttributes

app = typer.Typer(no_args_is_help=True, help="Services: their state, commits and rollbacks.")

Setting = Annotated[
    list[str] | None, typer.Option("--set", help="Value for templates, as key=value; repeatable.")
]
COMPONENTS: tuple[Column[ServiceDetailsComponents], ...] = (
    field("KIND"),
    field("NAMESPACE"),
    field("NAME"),
    Column("STATE", lambda row: row["state"] or "UNKNOWN"),
    Column("MESSAGE", lambda row: row["message"] or ("" if row["synced"] else "differs from Git")),
)
_HISTORY: tuple[Column[LedgerEvent], ...] = (
    field("AT"),
    field("STAGE"),
    Column("COMMIT", lambda row: short(row["sha"])),
    Column("DIGEST", lambda row: short(row["digest"])),
    field("BY", "actor"),
    field("MESSAGE"),
)


@app.command("list")
def list_services(
    context: typer.Context,
    cluster: Annotated[str | None, typer.Option(help="Filter by cluster, by handle or id.")] = None,
    query: Search = None,
    selector: Selector = None,
    field_selector: Annotated[
        str | None,
        typer.Option(help="Only in these states, such as status=FAILED,status=DRIFTED."),
    ] = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="Only services with a problem.")
    ] = False,
    view: View = None,
    output: Output = Format.TABLE,
) -> None:
    """List services.

    \b
    Example:
      towline services list --cluster prod-eu
      towline services list -l env=prod --field-selector status=FAILED
      towline services list --problems --exit-code
      towline services list --view "failed in prod"
    """
    if problems and field_selector:
        raise Invalid("use either --problems or --field-selector")
    api = connect(context)
    # A table of 3,000 services needs half of the time with only the fields of its columns, and
    # large pages.
    filters = {
        "q": query,
        "clusterId": find_cluster_id(api, cluster),
        "labels": selector,
        "status": PROBLEMS if problems else fields_of(field_selector, ("status",)).get("status"),
    }
    options = {name: value for name, value in filters.items() if value is not None}
    filters = {**filter_of_view(api, view), **options}
    if output in (Format.TABLE, Format.NAME):
        rows = pages(api, operations.SERVICE_ROWS, LARGE_PAGE, **filters)
        show(rows, ROW_COLUMNS, output, label)
    else:
        show(pages(api, operations.SERVICES, **filters), COLUMNS, output, label)


@app.command("get")
def get_service(
    context: typer.Context, service: ServiceName, output: Output = Format.TABLE
) -> None:
    """Show a service and its objects, failed and waiting ones first.

    \b
    Example:
      towline services get prod-eu/web
    """
    row = find_service(connect(context), service)
    show(row, COLUMNS, output, label)
    if output.is_table and row["components"]:
        print()
        show(by_urgency(row["components"]), COMPONENTS, output, "name")


class NewServiceOptions(OptionGroup):
    """Options of a new service."""

    cluster: Annotated[str, typer.Option(help="Handle or id of the cluster.")]
    namespace: Annotated[str, typer.Option(help="Target namespace.")]
    repo: Annotated[
        str | None,
        typer.Option(help="URL or id of the Git or OCI repository; an unknown URL is added."),
    ] = None
    folder: Annotated[str | None, typer.Option(help="Folder in the repository.")] = None
    chart: Annotated[
        str | None, typer.Option(help="Helm chart of a chart repository, instead of a folder.")
    ] = None
    chart_repo: Annotated[
        str | None, typer.Option(help="URL of the chart repository: https://… or oci://….")
    ] = None
    chart_version: Annotated[
        str | None,
        typer.Option(help="Version of the chart, or a range such as ^6 (default: newest)."),
    ] = None
    values: Annotated[
        Path | None, typer.Option(help="YAML file with values of the chart; - for stdin.")
    ] = None
    ref: Annotated[
        str | None,
        typer.Option(
            help="Branch, tag or commit (default: main); of an OCI repository a tag, version range "
            "or digest (default: latest)."
        ),
    ] = None
    kustomize: Annotated[
        str | None, typer.Option(help="Path of the kustomization in the folder.")
    ] = None
    setting: Setting = None
    templated: Annotated[
        bool, typer.Option("--templated", help="Expand Liquid templates in the manifests.")
    ] = False
    protect: Annotated[bool, typer.Option(help="Protect the service from deletion.")] = False
    promoted: Annotated[bool, typer.Option(help="Take commits only from a pipeline.")] = False
    project: Annotated[
        str | None,
        typer.Option(help="Project whose fence and permissions apply (default: the cluster's)."),
    ] = None

    def attributes(self, api: GraphQLApi, name: str) -> "ServiceDeploymentAttributes":
        """Builds the attributes for the API, except the repository.

        Raises Invalid for an unreadable file, and for anything but one source.
        """
        values = read_text(self.values, "--values") if self.values else None
        attributes: ServiceDeploymentAttributes = {
            "name": name,
            "namespace": self.namespace,
            "templated": self.templated,
            "protect": self.protect,
            "promoted": self.promoted,
            "kustomize": {"path": self.kustomize} if self.kustomize else None,
            "configuration": configuration_of(parse_pairs(self.setting, "--set")) or None,
        }
        if self._is_chart():
            attributes["helm"] = {
                "chart": self.chart,
                "url": self.chart_repo,
                "version": self.chart_version,
                "values": values,
            }
        else:
            default = "latest" if (self.repo or "").startswith(OCI_SCHEME) else "main"
            attributes["git"] = {"ref": self.ref or default, "folder": self.folder or ""}
            attributes["helm"] = {"values": values} if values is not None else None
        attributes["projectId"] = find_project_id(api, self.project)
        return attributes

    def _is_chart(self) -> bool:
        """Reports whether the source is a chart. Raises Invalid unless there is one source."""
        chart, folder = (self.chart, self.chart_repo), (self.repo, self.folder)
        is_chart, is_folder = None not in chart, None not in folder
        other_options = folder if is_chart else (*chart, self.chart_version)
        if not (is_chart or is_folder) or any(option is not None for option in other_options):
            raise Invalid("give either --repo and --folder, or --chart and --chart-repo")
        return is_chart


@app.command("create")
@option_groups
def create_service(
    context: typer.Context,
    name: Annotated[str, typer.Argument(help="Name of the service in its cluster.")],
    options: NewServiceOptions,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the service is healthy.")
    ] = False,
    timeout: WithWait = None,
    output: Output = Format.TABLE,
) -> None:
    """Deploy a folder of a Git or OCI repository, or a Helm chart, to a cluster.

    With --wait: exit code 1 if the service fails and a retry cannot help, 6 on timeout.

    \b
    Example:
      towline services create web --cluster dev --namespace shop \\
        --repo https://git.example.org/shop.git --folder deploy/dev --wait
      towline services create podinfo --cluster dev --namespace web --chart podinfo \\
        --chart-repo https://charts.example.org --chart-version ^6 --values values.yaml
    """
    limit = timeout_of(timeout, wait=wait)
    api = connect(context)
    attributes = options.attributes(api, name)
    cluster_id = find_cluster(api, options.cluster)["id"]
    url = None
    if options.repo is not None:
        attributes["repositoryId"] = find_known_repository(api, options.repo)
        url = options.repo if attributes["repositoryId"] is None else None
    created = operations.create_service(api, attributes, cluster_id=cluster_id, repository_url=url)
    if url:
        say(f"added repository {url}")
    if wait:
        row = wait_for_service(api, label(created), WantedState(), limit, is_new=True)
        show(row, COLUMNS, output, label)
    else:
        show(created, COLUMNS, output, label)
        say(f"follow it with: towline services wait {label(created)}")


class ServiceOptions(OptionGroup):
    """Options that change a service."""

    ref: Annotated[str | None, typer.Option(help="Branch, tag or commit.")] = None
    folder: Annotated[str | None, typer.Option(help="Folder in the repository.")] = None
    kustomize: Annotated[
        str | None, typer.Option(help="Path of the kustomization in the folder.")
    ] = None
    setting: Setting = None
    templated: Annotated[
        bool | None, typer.Option(help="Expand Liquid templates in the manifests.")
    ] = None
    protect: Annotated[bool | None, typer.Option(help="Protect the service from deletion.")] = None
    paused: Annotated[
        bool | None,
        typer.Option("--pause/--resume", help="Pause or resume changes in the cluster."),
    ] = None
    soak: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="SECONDS",
            help="Roll back if not healthy within SECONDS (0 = never).",
        ),
    ] = None

    @property
    def changed(self) -> list[str]:
        """The fields of a manifest that the options change."""
        options = {
            "ref": self.ref or None,
            "folder": self.folder,
            "kustomizePath": self.kustomize or None,
            "templated": self.templated,
            "protect": self.protect,
            "paused": self.paused,
            "verification": self.soak,
        }
        values = [f"configuration.{name}" for name in parse_pairs(self.setting, "--set")]
        return [*(name for name, option in options.items() if option is not None), *values]

    def attributes(self, service: Service) -> "ServiceUpdateAttributes":
        """Builds the attributes of the given options."""
        attributes: ServiceUpdateAttributes = {}
        if self.templated is not None:
            attributes["templated"] = self.templated
        if self.protect is not None:
            attributes["protect"] = self.protect
        if self.paused is not None:
            attributes["paused"] = self.paused
        if self.soak is not None:
            attributes["verification"] = {"soakSeconds": self.soak}
        if self.ref or self.folder is not None:
            git = service["git"] or {"ref": "", "folder": ""}
            attributes["git"] = {
                "ref": self.ref or git["ref"],
                "folder": git["folder"] if self.folder is None else self.folder,
            }
        if self.kustomize:
            attributes["kustomize"] = {"path": self.kustomize}
        if self.setting:
            old_values = {entry["name"]: entry["value"] for entry in service["configuration"]}
            values = old_values | parse_pairs(self.setting, "--set")
            attributes["configuration"] = configuration_of(values)
        return attributes


@app.command("update")
@option_groups
def update_service(
    context: typer.Context,
    service: ServiceName,
    options: ServiceOptions,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields.

    Warns about fields that a configuration source, Terraform or another manager set as well.

    \b
    Example:
      towline services update dev/web --ref release-2
    """
    api = connect(context)
    row = find_service(api, service)
    attributes = options.attributes(row)
    if not attributes:
        raise Invalid("nothing to update; give at least one option, see --help")
    show(operations.update_service(api, row["id"], attributes), COLUMNS, output, label)
    warn_of_managers(api, "Service", label(row), options.changed)


@app.command("delete")
def delete_service(
    context: typer.Context,
    service: ServiceName,
    detach: Annotated[bool, typer.Option(help="Keep its objects in the cluster.")] = False,
    wait: Annotated[
        bool, typer.Option("--wait", help="Wait until the agent has removed its objects.")
    ] = False,
    timeout: WithWait = None,
    yes: Yes = False,
    output: Output = Format.TABLE,
) -> None:
    """Delete a service and its objects.

    The agent deletes the objects, then the service disappears from the lists.

    \b
    Example:
      towline services delete dev/web --wait
    """
    limit = timeout_of(timeout, wait=wait)
    api = connect(context)
    confirm_deletion(
        f"service {service}", yes=yes, along=lambda: () if detach else _objects(api, service)
    )
    row = find_service(api, service)
    delete = operations.detach_service if detach else operations.delete_service
    # The API knows no second deletion, and a first one may be followed again.
    is_repeated = row["deletedAt"] is not None and not detach
    show(row if is_repeated else delete(api, row["id"]), COLUMNS, output, label)
    if wait:
        wait_for_deletion(api, row, limit)
    say(describe_deletion(api, row, keeps_objects=detach))


def _objects(api: GraphQLApi, service: str) -> list[str]:
    return [name_of(component) for component in find_service(api, service)["components"]]


@app.command("confirm")
def confirm_deletions(
    context: typer.Context,
    service: ServiceName,
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
    awaiting = operations.pending_deletions(api, id)["awaiting"]
    going = select_deletions(awaiting, objects or ())
    say("\n".join(f"deletes {name_of(deletion)}" for deletion in going))
    show(
        operations.confirm_deletions(api, id, list(map(attributes_of, going))),
        COLUMNS,
        output,
        label,
    )


@app.command("history")
def show_history(
    context: typer.Context, service: ServiceName, output: Output = Format.TABLE
) -> None:
    """Show the history of a service, newest first.

    \b
    Example:
      towline services history prod-eu/web
    """
    api = connect(context)
    row = find_service(api, service)
    show(operations.ledger(api, service_id=row["id"], first=100), _HISTORY, output, "id")


app.command("sync")(sync)
app.command("pause")(pause)
app.command("resume")(resume)
app.command("rollback")(roll_back)
app.command("unpin")(unpin)
app.command("diff")(diff_service)
app.command("manifests")(show_manifests)


@app.command("why")
def why(context: typer.Context, service: ServiceName) -> None:
    """Explain, stage by stage, how far a commit has come and what blocks it.

    \b
    Example:
      towline services why prod-eu/web
    """
    print(*explain(connect(context), service), sep="\n")


@app.command("wait")
def wait_for_status(
    context: typer.Context,
    service: ServiceName,
    status: Annotated[str, typer.Option("--for", help="Status to wait for.")] = "HEALTHY",
    sha: Annotated[str | None, typer.Option(help="Wait for this commit.")] = None,
    timeout: Timeout = DEFAULT_TIMEOUT,
    output: Output = Format.TABLE,
) -> None:
    """Wait until a service reaches a status.

    Exit code 1 if the service fails and a retry cannot help, 6 on timeout.

    \b
    Example:
      towline services wait dev/web --sha $(git rev-parse HEAD) --timeout 2m
    """
    wanted = WantedState(status_of(status), sha)
    limit = seconds(timeout, "--timeout")
    show(wait_for_service(connect(context), service, wanted, limit), COLUMNS, output, label)
