"""`towline namespaces …`; `towline apply` creates and updates managed namespaces."""

import typer

from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_namespace
from towline.cli.generators.generators import COLUMNS, SERVICES, Confirm, Name, deleted_services
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import Search, connect

app = typer.Typer(no_args_is_help=True, help="Managed namespaces: one namespace on many clusters.")


@app.command("list")
def list_namespaces(
    context: typer.Context,
    query: Search = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """List managed namespaces.

    \b
    Example:
      towline namespaces list
    """
    show(operations.namespaces(connect(context), q=query, labels=selector), COLUMNS, output, "name")


@app.command("services")
def list_owned(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services of a managed namespace.

    \b
    Example:
      towline namespaces services team-a
    """
    api = connect(context)
    id = find_namespace(api, name)["id"]
    show(operations.namespace_services(api, id), SERVICES, output, "name")


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Sync now.

    \b
    Example:
      towline namespaces sync team-a --confirm 12
    """
    api = connect(context)
    id = find_namespace(api, name)["id"]
    show(operations.sync_namespace(api, id, confirm), COLUMNS, output, "name")


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a managed namespace; its policy decides what happens to its services.

    \b
    Example:
      towline namespaces delete team-a
    """
    confirm_deletion(
        f"managed namespace {name}", yes=yes, along=lambda: _deleted_service_names(context, name)
    )
    api = connect(context)
    id = find_namespace(api, name)["id"]
    show(operations.delete_namespace(api, id), COLUMNS, output, "name")


def _deleted_service_names(context: typer.Context, name: str) -> list[str]:
    api = connect(context)
    namespace = find_namespace(api, name)
    return deleted_services(namespace, operations.namespace_services(api, namespace["id"]))
