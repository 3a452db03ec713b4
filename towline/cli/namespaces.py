"""`towline namespaces …`; `towline apply` makes and changes them."""

import typer

from towline.cli.definitions import Confirm, Name, act, list_all, list_services
from towline.cli.fleetdocuments import NAMESPACES
from towline.cli.output import Format
from towline.cli.session import Output, Search

app = typer.Typer(no_args_is_help=True, help="Namespaces that many clusters have.")


@app.command("list")
def list_namespaces(
    context: typer.Context, query: Search = None, output: Output = Format.TABLE
) -> None:
    """List managed namespaces.

    \b
    Example:
      towline namespaces list
    """
    list_all(context, NAMESPACES, query, output)


@app.command("services")
def list_owned(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services that come from it.

    \b
    Example:
      towline namespaces services team-a
    """
    list_services(context, NAMESPACES, name, output)


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Look at it now.

    \b
    Example:
      towline namespaces sync team-a --confirm 12
    """
    act(context, NAMESPACES, NAMESPACES.sync, name, output, confirm=confirm)


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete it; its services go as its policy says.

    \b
    Example:
      towline namespaces delete team-a
    """
    act(context, NAMESPACES, NAMESPACES.delete, name, output)
