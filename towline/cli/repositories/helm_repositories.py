"""`towline helm-repos …`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.projects.find import find_project
from towline.cli.repositories import generated as operations
from towline.cli.repositories.find import find_helm_repository
from towline.cli.repositories.generated import HelmRepository, HelmRepositoryCharts
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show, since
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import Search, connect
from towline.input_files import read_secret

if TYPE_CHECKING:
    from towline.generated_inputs import HelmRepositoryAttributes

app = typer.Typer(no_args_is_help=True, help="Chart repositories and OCI registries.")

Name = Annotated[str, typer.Argument(help="URL or id of the chart repository.")]
Username = Annotated[str | None, typer.Option(help="Username.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File containing the password or token.")]
COLUMNS: tuple[Column[HelmRepository], ...] = (
    field("URL"),
    field("HEALTH"),
    since("LAST POLL", "polledAt"),
    field("ERROR"),
)
CHARTS: tuple[Column[HelmRepositoryCharts], ...] = (
    field("CHART"),
    field("RANGE"),
    field("VERSION"),
    field("DIGEST"),
)


@app.command("list")
def list_helm_repositories(
    context: typer.Context,
    query: Search = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """List chart repositories.

    \b
    Example:
      towline helm-repos list
    """
    show(
        operations.helm_repositories(connect(context), q=query, labels=selector),
        COLUMNS,
        output,
        "url",
    )


@app.command("get")
def get_helm_repository(
    context: typer.Context, repository: Name, output: Output = Format.TABLE
) -> None:
    """Show the charts in use, and the newest version that each range allows.

    \b
    Example:
      towline helm-repos get https://charts.example.org
    """
    found = find_helm_repository(connect(context), repository)
    if output.is_table:
        show(found["charts"], CHARTS, output, "chart")
    else:
        show(found, COLUMNS, output, "url")


@app.command("create")
def create_helm_repository(
    context: typer.Context,
    url: Annotated[str, typer.Argument(help="https://… or oci://…")],
    username: Username = None,
    password_file: PasswordFile = None,
    project: Annotated[str | None, typer.Option(help="Name of the project.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Add a chart repository.

    \b
    Example:
      towline helm-repos create oci://registry.example.org/charts --username bot --password-file t
    """
    api = connect(context)
    attributes: HelmRepositoryAttributes = {
        "url": url,
        "username": username,
        "password": read_secret(password_file, "--password-file"),
        "projectId": find_project(api, project)["id"] if project else None,
    }
    show(operations.create_helm_repository(api, attributes), COLUMNS, output, "url")


@app.command("update")
def update_helm_repository(
    context: typer.Context,
    repository: Name,
    url: Annotated[str | None, typer.Option(help="New URL.")] = None,
    username: Username = None,
    password_file: PasswordFile = None,
    output: Output = Format.TABLE,
) -> None:
    """Update only the given fields of a chart repository.

    \b
    Example:
      towline helm-repos update https://charts.example.org --username bot --password-file token
    """
    api = connect(context)
    attributes: HelmRepositoryAttributes = {
        "url": url,
        "username": username,
        "password": read_secret(password_file, "--password-file"),
    }
    id = find_helm_repository(api, repository)["id"]
    show(operations.update_helm_repository(api, id, attributes), COLUMNS, output, "url")


@app.command("delete")
def delete_helm_repository(
    context: typer.Context, repository: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a chart repository that no service uses.

    \b
    Example:
      towline helm-repos delete https://charts.example.org
    """
    confirm_deletion(f"chart repository {repository}", yes=yes)
    api = connect(context)
    id = find_helm_repository(api, repository)["id"]
    show(operations.delete_helm_repository(api, id), COLUMNS, output, "url")


@app.command("sync")
def sync_helm_repository(
    context: typer.Context, repository: Name, output: Output = Format.TABLE
) -> None:
    """Check for new chart versions now.

    \b
    Example:
      towline helm-repos sync https://charts.example.org
    """
    api = connect(context)
    id = find_helm_repository(api, repository)["id"]
    show(operations.sync_helm_repository(api, id), COLUMNS, output, "url")
