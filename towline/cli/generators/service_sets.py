"""`towline sets …`; `towline apply` creates and updates service sets."""

import typer

from towline.cli.generators import generated as operations
from towline.cli.generators.find import find_service_set
from towline.cli.generators.generated import PlannedService
from towline.cli.generators.generators import COLUMNS, SERVICES, Confirm, Name, deleted_services
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, say, show
from towline.cli.shell.selectors import Selector
from towline.cli.shell.session import Search, connect

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


@app.command("list")
def list_sets(
    context: typer.Context,
    query: Search = None,
    selector: Selector = None,
    output: Output = Format.TABLE,
) -> None:
    """List service sets.

    \b
    Example:
      towline sets list
    """
    show(
        operations.service_sets(connect(context), q=query, labels=selector), COLUMNS, output, "name"
    )


@app.command("services")
def list_owned(context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
    """List the services of a service set.

    \b
    Example:
      towline sets services previews
    """
    api = connect(context)
    id = find_service_set(api, name)["id"]
    show(operations.service_set_services(api, id), SERVICES, output, "name")


@app.command("sync")
def sync(
    context: typer.Context, name: Name, confirm: Confirm = 0, output: Output = Format.TABLE
) -> None:
    """Sync now.

    \b
    Example:
      towline sets sync previews --confirm 12
    """
    api = connect(context)
    id = find_service_set(api, name)["id"]
    show(operations.sync_service_set(api, id, confirm), COLUMNS, output, "name")


@app.command("delete")
def delete(
    context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
) -> None:
    """Delete a service set; its policy decides what happens to its services.

    \b
    Example:
      towline sets delete previews
    """
    confirm_deletion(
        f"service set {name}", yes=yes, along=lambda: _deleted_service_names(context, name)
    )
    api = connect(context)
    id = find_service_set(api, name)["id"]
    show(operations.delete_service_set(api, id), COLUMNS, output, "name")


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


def _deleted_service_names(context: typer.Context, name: str) -> list[str]:
    api = connect(context)
    service_set = find_service_set(api, name)
    return deleted_services(service_set, operations.service_set_services(api, service_set["id"]))
