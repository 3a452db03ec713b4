"""`towline namespaces …`; `towline apply` creates and updates managed namespaces."""

import typer

from towline.cli.generator_documents import NAMESPACES
from towline.cli.generators import Confirm, Name, list_all, list_services, run_mutation
from towline.cli.output import Format
from towline.cli.session import Output, Search

app = typer.Typer(no_args_is_help=True, help="Managed namespaces: one namespace on many clusters.")


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
    """List the services of a managed namespace.

    \b
    Example:
      towline namespaces services team-a
    """
    list_services(context, NAMESPACES, name, output)


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Sync now.

    \b
    Example:
      towline namespaces sync team-a --confirm 12
    """
    run_mutation(context, NAMESPACES, NAMESPACES.sync, name, output, confirm=confirm)


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete a managed namespace; its policy decides what happens to its services.

    \b
    Example:
      towline namespaces delete team-a
    """
    run_mutation(context, NAMESPACES, NAMESPACES.delete, name, output)
