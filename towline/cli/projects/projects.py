"""`towline projects …`."""

from typing import TYPE_CHECKING, Annotated

import typer

from towline.cli.projects import generated as operations
from towline.cli.projects.find import find_project
from towline.cli.projects.generated import Project
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.output import Column, Format, field, show, since
from towline.cli.shell.session import Output, Search, connect

if TYPE_CHECKING:
    from towline.generated_inputs import ProjectAttributes

app = typer.Typer(no_args_is_help=True, help="Projects: groups of related resources.")

COLUMNS: tuple[Column[Project], ...] = (
    field("NAME"),
    field("DESCRIPTION"),
    since("CREATED", "insertedAt"),
    field("ID"),
)
Name = Annotated[str, typer.Argument(help="Name of the project.")]


@app.command("list")
def list_projects(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List the projects that you can read.

    \b
    Example:
      towline projects list
    """
    show(operations.projects(connect(context), q=query), COLUMNS, output, "name")


@app.command("create")
def create_project(
    context: typer.Context,
    name: Name,
    description: Annotated[str | None, typer.Option(help="Description.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Create a project.

    \b
    Example:
      towline projects create shop --description "The web shop"
    """
    attributes: ProjectAttributes = {"name": name, "description": description}
    show(operations.create_project(connect(context), attributes), COLUMNS, output, "name")


@app.command("delete")
def delete_project(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete an empty project and its role bindings.

    \b
    Example:
      towline projects delete shop
    """
    confirm_deletion(f"project {name}", yes=yes)
    api = connect(context)
    show(operations.delete_project(api, find_project(api, name)["id"]), COLUMNS, output, "name")
