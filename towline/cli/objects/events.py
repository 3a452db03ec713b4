"""`towline events`: Kubernetes events of a service's objects."""

from typing import Annotated

import typer

from towline.cli.services import generated as operations
from towline.cli.services.find import ServiceName, find_service
from towline.cli.services.generated import ServiceEvent
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_column, field, show
from towline.cli.shell.session import connect

_COLUMNS: tuple[Column[ServiceEvent], ...] = (
    age_column("LAST SEEN", "lastAt"),
    field("TYPE"),
    field("REASON"),
    Column("OBJECT", lambda row: "/".join((row["kind"].lower(), row["name"]))),
    field("COUNT"),
    field("MESSAGE"),
    field("NAMESPACE", wide=True),
    field("SOURCE", wide=True),
    age_column("FIRST SEEN", "firstAt"),
)


def events(
    context: typer.Context,
    service: ServiceName,
    warnings: Annotated[bool, typer.Option("--warnings", help="Only warnings.")] = False,
    output: Output = Format.TABLE,
) -> None:
    """Show the Kubernetes events of a service's objects, newest last.

    \b
    Example:
      towline events prod-eu/web --warnings
    """
    api = connect(context)
    service_events = operations.service_events(api, find_service(api, service)["id"])
    rows = [row for row in service_events if not warnings or row["type"] == "Warning"]
    rows.sort(key=lambda row: row["lastAt"] or "")
    show(rows, _COLUMNS, output, "name")
