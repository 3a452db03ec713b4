"""`towline sets …`; `towline apply` creates and updates service sets."""

import typer

from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_service_set
from towline.cli.generators.generated import PlannedService
from towline.cli.generators.generators import COLUMNS, DefinitionCommands, Name
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, say, show
from towline.cli.shell.resource_commands import add_list
from towline.cli.shell.session import connect

app = typer.Typer(
    no_args_is_help=True,
    help="Service sets: services generated from folders, items or pull requests.",
)


class _PlannedService(PlannedService):
    what: str


PLANNED: tuple[Column[_PlannedService], ...] = (
    field("ACTION", "what"),
    field("CLUSTER", "clusterId"),
    field("NAME"),
    field("NAMESPACE"),
    field("REF"),
    field("FOLDER"),
)


add_list(app, "towline sets list", "List service sets.", operations.service_sets, COLUMNS, "name")
DefinitionCommands(
    *("sets", "service set", "previews"),
    find_service_set,
    operations.service_set_services,
    operations.sync_service_set,
    operations.delete_service_set,
).add_to(app)


@app.command("preview")
def preview(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """Preview the next sync.

    \b
    Example:
      towline sets preview previews
    """
    api = connect(context)
    plan = operations.preview_service_set(api, {}, id=find_service_set(api, name)["id"])
    if not output.is_table:
        return show(plan, (), output, "problem")
    services = {
        "create": plan["create"],
        "update": plan["update"],
        "delete": plan["delete"],
        "withheld": plan["withheld"],
        "collisions": plan["collisions"],
    }
    rows: list[_PlannedService] = [
        {**row, "what": what} for what, planned in services.items() for row in planned
    ]
    show(rows, PLANNED, output, "name")
    if plan["problem"]:
        say(plan["problem"])
