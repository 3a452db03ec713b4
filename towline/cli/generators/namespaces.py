"""`towline namespaces …`; `towline apply` creates and updates managed namespaces."""

import typer

from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_namespace
from towline.cli.generators.generators import COLUMNS, DefinitionCommands
from towline.cli.shell.resource_commands import add_list

app = typer.Typer(no_args_is_help=True, help="Managed namespaces: one namespace on many clusters.")

add_list(
    app,
    "towline namespaces list",
    "List managed namespaces.",
    operations.namespaces,
    COLUMNS,
    "name",
)
DefinitionCommands(
    *("namespaces", "managed namespace", "team-a"),
    find_namespace,
    operations.namespace_services,
    operations.sync_namespace,
    operations.delete_namespace,
).add_to(app)
