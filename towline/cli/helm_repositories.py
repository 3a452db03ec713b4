"""`towline helm-repos …`."""

from pathlib import Path
from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Format, field, show, since
from towline.cli.repositories import secret_of
from towline.cli.session import Output, Search, connect, every, find_helm_repository, find_project

app = typer.Typer(no_args_is_help=True, help="Chart repositories and OCI registries.")

Name = Annotated[str, typer.Argument(help="URL or id of the chart repository.")]
Username = Annotated[str | None, typer.Option(help="Username.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File containing the password or token.")]
COLUMNS = (
    field("URL"),
    field("HEALTH"),
    since("LAST POLL", "polledAt"),
    field("ERROR"),
)
CHARTS = (field("CHART"), field("RANGE"), field("VERSION"), field("DIGEST"))


@app.command("list")
def list_helm_repositories(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List chart repositories.

    \b
    Example:
      towline helm-repos list
    """
    show(every(connect(context), documents.HELM_REPOSITORIES, q=query), COLUMNS, output, "url")


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
    if output is Format.TABLE:
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
    attributes = {
        "url": url,
        "username": username,
        "password": secret_of(password_file, "--password-file"),
        "projectId": find_project(api, project)["id"] if project else None,
    }
    made = api.ask(documents.CREATE_HELM_REPOSITORY, attributes=attributes)
    show(made["createHelmRepository"], COLUMNS, output, "url")


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
    attributes = {
        "url": url,
        "username": username,
        "password": secret_of(password_file, "--password-file"),
    }
    id = find_helm_repository(api, repository)["id"]
    changed = api.ask(documents.UPDATE_HELM_REPOSITORY, id=id, attributes=attributes)
    show(changed["updateHelmRepository"], COLUMNS, output, "url")


@app.command("delete")
def delete_helm_repository(
    context: typer.Context, repository: Name, output: Output = Format.TABLE
) -> None:
    """Delete a chart repository that no service uses.

    \b
    Example:
      towline helm-repos delete https://charts.example.org
    """
    api = connect(context)
    id = find_helm_repository(api, repository)["id"]
    gone = api.ask(documents.DELETE_HELM_REPOSITORY, id=id)["deleteHelmRepository"]
    show(gone, COLUMNS, output, "url")


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
    asked = api.ask(documents.SYNC_HELM_REPOSITORY, id=id)["syncHelmRepository"]
    show(asked, COLUMNS, output, "url")
