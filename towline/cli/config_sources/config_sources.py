"""`towline config-sources …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from core.errors import Conflict, Invalid
from towline.cli.access import generated as access
from towline.cli.access.find import find_user
from towline.cli.access.users import InstallationRole
from towline.cli.config_sources import generated as operations
from towline.cli.config_sources.generated import ConfigurationSource, SourcePlan
from towline.cli.manifests.managers import fields_of, warn_of_managers
from towline.cli.manifests.plans import print_items, problem_lines
from towline.cli.projects.find import find_project
from towline.cli.repositories import generated as repositories
from towline.cli.repositories.find import find_folder_repository
from towline.cli.repositories.repositories import RepositoryOptions
from towline.cli.shell.confirmation import Approve, Yes, confirm_approval, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.found_code import FOUND
from towline.cli.shell.option_groups import OptionGroup, option_groups
from towline.cli.shell.output import Column, age_column, field, say, short, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect, enum_name, first_found, found_or_none
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import ConfigurationSourceAttributes, GitAttributes

app = typer.Typer(
    no_args_is_help=True, help="Folders of manifests in Git that run the installation."
)

_DOMAIN = "service-accounts"
Name = Annotated[str, typer.Argument(help="Name of the configuration source.")]

COLUMNS: tuple[Column[ConfigurationSource], ...] = (
    field("NAME"),
    Column("STATE", lambda row: "SUSPENDED" if row["suspended"] else row["result"]),
    field("REPOSITORY", "repositoryUrl"),
    field("REF"),
    field("FOLDER"),
    Column("APPLIED", lambda row: short(row["appliedSha"]), ("appliedSha",)),
    age_column("CHECKED", "checkedAt"),
    field("MESSAGE"),
)
DETAILS: tuple[Column[ConfigurationSource], ...] = (
    *COLUMNS[:5],
    field("ACCOUNT", "serviceAccount"),
    field("MODE"),
    field("PRUNE"),
    field("BUDGET", "deletionBudget"),
    field("DRIFT"),
    Column("SEEN", lambda row: short(row["seenSha"]), ("seenSha",)),
    *COLUMNS[5:],
)


class SourceOptions(OptionGroup):
    """Options of a configuration source."""

    ref: Annotated[
        str | None, typer.Option(help="Branch, tag or commit (default of a new source: main).")
    ] = None
    folder: Annotated[
        str | None, typer.Option(help="Folder of the manifests; empty: the whole repository.")
    ] = None
    service_account: Annotated[
        str | None,
        typer.Option(
            help="Service account that applies the manifests (default: NAME@service-accounts)."
        ),
    ] = None
    mode: Annotated[
        str | None,
        typer.Option(help="automatic applies new commits; approval only plans them."),
    ] = None
    prune: Annotated[
        bool | None, typer.Option(help="Delete resources whose documents left the folder.")
    ] = None
    deletion_budget: Annotated[
        int | None, typer.Option(help="Maximum number of deletions of one apply.")
    ] = None
    drift: Annotated[
        str | None,
        typer.Option(help="Reaction to changes by other managers: report, heal or ignore."),
    ] = None
    interval: Annotated[
        int | None, typer.Option(help="Seconds between two checks for drift, from 30.")
    ] = None

    def attributes(self) -> "ConfigurationSourceAttributes":
        """Builds the attributes for the API, without references."""
        return {
            "ref": self.ref,
            "folder": self.folder,
            "mode": enum_name(self.mode, "--mode", "AUTOMATIC", "APPROVAL"),
            "prune": self.prune,
            "deletionBudget": self.deletion_budget,
            "drift": enum_name(self.drift, "--drift", "REPORT", "HEAL", "IGNORE"),
            "intervalSeconds": self.interval,
        }


class NewSourceOptions(OptionGroup):
    """Options that only a new configuration source has."""

    project: Annotated[str | None, typer.Option(help="Project of the source.")] = None
    role: Annotated[
        InstallationRole | None,
        typer.Option(help="Role of the service account in the installation, if it is created."),
    ] = None


add_list(
    app,
    "towline config-sources list",
    "List configuration sources.",
    operations.configuration_sources,
    COLUMNS,
    "name",
)


@app.command("get")
def get_source(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Show the settings, the commits and the state of a configuration source.

    \b
    Example:
      towline config-sources get fleet
    """
    show(_find(connect(context), name), DETAILS, output, "name")


@app.command("create")
@option_groups
def create_source(
    context: typer.Context,
    name: Name,
    repository: Annotated[str, typer.Option(help="URL of the Git repository.")],
    *,
    new: NewSourceOptions,
    options: SourceOptions,
    connection: RepositoryOptions,
    output: Output = Format.TABLE,
) -> None:
    """Let the control plane apply a folder of manifests in Git.

    Adds the repository if it is missing, and creates the service account with --role. So one
    command rebuilds an installation from its repository.

    \b
    Example:
      towline config-sources create fleet --repository https://git.example.org/fleet.git \\
        --folder fleet --role admin --prune --deletion-budget 5 --password-file token
    """
    api = connect(context)
    # Invalid files fail before anything is created.
    new_repository = connection.attributes(api, repository)
    attributes: ConfigurationSourceAttributes = {"name": name, **options.attributes()}
    if new.project:
        attributes["projectId"] = find_project(api, new.project)["id"]
    attributes["serviceAccountId"] = _find_or_create_account(
        api, options.service_account or f"{name}@{_DOMAIN}", new.role
    )
    attributes["repositoryId"] = _find_or_add_repository(api, new_repository)
    show(operations.create_configuration_source(api, attributes), COLUMNS, output, "name")
    say(f"follow it with: towline config-sources get {name}")


@app.command("update")
@option_groups
def update_source(
    context: typer.Context,
    name: Name,
    repository: Annotated[str | None, typer.Option(help="URL of the Git repository.")] = None,
    *,
    options: SourceOptions,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields of a configuration source.

    \b
    Example:
      towline config-sources update fleet --drift heal --interval 120
    """
    api = connect(context)
    source, attributes = _find(api, name), options.attributes()
    if repository:
        attributes["repositoryId"] = find_folder_repository(api, repository)
    if options.service_account:
        attributes["serviceAccountId"] = find_user(api, options.service_account)["id"]
    row = operations.update_configuration_source(api, source["id"], attributes)
    show(row, COLUMNS, output, "name")
    warn_of_managers(api, "ConfigurationSource", row["name"], fields_of(attributes))


@app.command("plan")
def plan(context: typer.Context, name: Name) -> None:
    """Show pending changes, drift and problems.

    The exit code is 1 if there are problems, else 7 if there are changes.

    \b
    Example:
      towline config-sources plan fleet
    """
    api = connect(context)
    source = operations.configuration_source_plan(api, _find(api, name)["id"])
    _print_plan(source)
    if source["problems"]:
        raise typer.Exit(1)
    if source["plan"]:
        raise typer.Exit(FOUND)


@app.command("sync")
def sync(
    context: typer.Context,
    name: Name,
    force: Annotated[
        bool, typer.Option(help="Take over fields of other managers, except of other sources.")
    ] = False,
    output: Output = Format.TABLE,
) -> None:
    """Fetch the repository now, and apply the folder again.

    \b
    Example:
      towline config-sources sync fleet
    """
    api = connect(context)
    row = operations.sync_configuration_source(api, _find(api, name)["id"], force)
    show(row, COLUMNS, output, "name")


@app.command("approve")
def approve(
    context: typer.Context,
    name: Name,
    digest: Annotated[
        str | None, typer.Option(help="Digest of the reviewed plan (default: the printed one).")
    ] = None,
    yes: Approve = False,
    output: Output = Format.TABLE,
) -> None:
    """Print the pending plan, and approve it.

    \b
    Example:
      towline config-sources approve fleet
    """
    api = connect(context)
    source = _find(api, name)
    if not source["planDigest"] or source["result"] != "AWAITING_APPROVAL":
        raise Conflict(f"configuration source {name} has no plan that waits for approval")
    if digest is None:
        _print_plan(operations.configuration_source_plan(api, source["id"]))
        confirm_approval(f"the plan of configuration source {name}", yes=yes)
    row = operations.approve_configuration_source(api, source["id"], digest or source["planDigest"])
    show(row, COLUMNS, output, "name")


@app.command("suspend")
def suspend(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Stop a configuration source, until `resume`.

    \b
    Example:
      towline config-sources suspend fleet
    """
    _set_suspended(context, name, output, suspended=True)


@app.command("resume")
def resume(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Start a suspended configuration source again.

    \b
    Example:
      towline config-sources resume fleet
    """
    _set_suspended(context, name, output, suspended=False)


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a configuration source, and keep its resources.

    \b
    Example:
      towline config-sources delete fleet
    """
    confirm_deletion(f"configuration source {name}", yes=yes)
    api = connect(context)
    row = operations.delete_configuration_source(api, _find(api, name)["id"])
    show(row, COLUMNS, output, "name")


def _set_suspended(context: typer.Context, name: str, output: Format, *, suspended: bool) -> None:
    api = connect(context)
    id = _find(api, name)["id"]
    row = operations.update_configuration_source(api, id, {"suspended": suspended})
    show(row, COLUMNS, output, "name")
    warn_of_managers(api, "ConfigurationSource", row["name"], ["suspended"])


def _find(api: GraphQLApi, name: str) -> ConfigurationSource:
    return first_found(
        f"configuration source {name}",
        lambda: operations.configuration_source(api, name=name),
        listed_by="config-sources list",
    )


def _find_or_create_account(api: GraphQLApi, email: str, role: InstallationRole | None) -> str:
    """Returns the ID of a service account, which is created with a role if it is missing."""
    user = found_or_none(lambda: access.user(api, email))
    if user is not None:
        if role is not None:
            say(f"service account {email} exists already, and keeps its roles")
        return user["id"]
    local, _, domain = email.partition("@")
    if role is None or domain != _DOMAIN:
        raise Invalid(
            f"service account {email} does not exist: create it, or give --role to get a new "
            f"account NAME@{_DOMAIN}",
            field="--service-account",
        )
    account = access.create_service_account(api, {"name": local})
    access.upsert_user(api, {"email": email, "role": role.name})
    say(f"created service account {email} with role {role.name.lower()}")
    return account["id"]


def _find_or_add_repository(api: GraphQLApi, attributes: "GitAttributes") -> str:
    existing = found_or_none(lambda: find_folder_repository(api, attributes["url"]))
    if existing is not None:
        return existing
    created = repositories.create_repository(api, attributes)
    say(f"added repository {attributes['url']}")
    return created["id"]


def _print_plan(source: SourcePlan) -> None:
    print_items(source["plan"], applied=False)
    if (hidden := source["planSize"] - len(source["plan"])) > 0:
        print(f"and {hidden} more")
    if source["problems"]:
        say("\n".join(["problems:", *problem_lines(source["problems"])]))
    elif source["message"]:
        say(source["message"])
