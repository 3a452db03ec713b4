"""`towline projects …`."""

from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Format, field, show, since
from towline.cli.session import Output, Search, connect, every, find_project

app = typer.Typer(no_args_is_help=True, help="Projects: groups of related resources.")

COLUMNS = (field("NAME"), field("DESCRIPTION"), since("CREATED", "insertedAt"), field("ID"))
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
    show(every(connect(context), documents.PROJECTS, q=query), COLUMNS, output, "name")


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
    attributes = {"name": name, "description": description}
    made = connect(context).ask(documents.CREATE_PROJECT, attributes=attributes)
    show(made["createProject"], COLUMNS, output, "name")


@app.command("delete")
def delete_project(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete an empty project and its role bindings.

    \b
    Example:
      towline projects delete shop
    """
    api = connect(context)
    gone = api.ask(documents.DELETE_PROJECT, id=find_project(api, name)["id"])["deleteProject"]
    show(gone, COLUMNS, output, "name")
