"""`towline sets …`; `towline apply` creates and updates service sets."""

import sys

import typer

from towline.cli.generator_documents import PREVIEW_SET, SETS
from towline.cli.generators import Confirm, Name, find, list_all, list_services, run_mutation
from towline.cli.output import Format, escape_controls, field, show
from towline.cli.session import Output, Search, connect

app = typer.Typer(
    no_args_is_help=True,
    help="Service sets: services generated from folders, items or pull requests.",
)

PLANNED = ("create", "update", "delete", "withheld", "collisions")
COLUMNS = (
    field("ACTION", "what"),
    field("CLUSTER", "clusterId"),
    field("NAME"),
    field("NAMESPACE"),
    field("REF"),
    field("FOLDER"),
)


@app.command("list")
def list_sets(context: typer.Context, query: Search = None, output: Output = Format.TABLE) -> None:
    """List service sets.

    \b
    Example:
      towline sets list
    """
    list_all(context, SETS, query, output)


@app.command("services")
def list_owned(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services of a service set.

    \b
    Example:
      towline sets services previews
    """
    list_services(context, SETS, name, output)


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Sync now.

    \b
    Example:
      towline sets sync previews --confirm 12
    """
    run_mutation(context, SETS, SETS.sync, name, output, confirm=confirm)


@app.command("delete")
def delete(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Delete a service set; its policy decides what happens to its services.

    \b
    Example:
      towline sets delete previews
    """
    run_mutation(context, SETS, SETS.delete, name, output)


@app.command("preview")
def preview(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Preview the next sync.

    \b
    Example:
      towline sets preview previews
    """
    api = connect(context)
    id = find(api, SETS, name)["id"]
    plan = api.ask(PREVIEW_SET, id=id, attributes={})["previewServiceSet"]
    rows = [{**row, "what": what} for what in PLANNED for row in plan[what]]
    show(rows if output is Format.TABLE else plan, COLUMNS, output, "problem")
    if output is Format.TABLE and plan["problem"]:
        print(escape_controls(plan["problem"]), file=sys.stderr)
