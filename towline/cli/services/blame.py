"""`towline blame`: the commit or user that set each field of an object."""

from typing import Annotated

import typer

from core.errors import NotFound
from towline.cli.services import generated as operations
from towline.cli.services.find import find_service
from towline.cli.services.generated import ComponentBlame
from towline.cli.services.object_names import find_object
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age, field, short, show
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

_FIELDS: tuple[Column[ComponentBlame], ...] = (
    field("FIELD", "pointer"),
    field("VALUE"),
    Column("ORIGIN", lambda row: origin(row)),
    field("BY", "person"),
    Column("WHEN", lambda row: moment(row)),
)


def blame(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="cluster/name, name, or id of the service.")],
    object_name: Annotated[str, typer.Argument(help="kind/name, or kind/namespace/name.")],
    under: Annotated[
        str, typer.Option("--field", help="Only fields under this JSON pointer.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Show which commit or user set each field of an object.

    \b
    Example:
      towline blame prod-eu/web Deployment/web --field /spec
    """
    api = connect(context)
    rows = operations.component_blame(api, object_id(api, service, object_name), under)
    show(rows, _FIELDS, output, "pointer")


def object_id(api: GraphQLApi, service: str, object_name: str) -> str:
    """Returns the id of an object of a service. Raises NotFound, or Invalid if several match."""
    id = find_service(api, service)["id"]
    found = find_object(operations.service_objects(api, id)["components"], object_name)
    if found is None:
        raise NotFound(f"service {service} has no {object_name}")
    return found["id"]


def origin(row: ComponentBlame) -> str:
    """Origin of a field: a commit, or else its field manager."""
    if row["revision"] is None:
        return str(row["manager"])
    older = " or older" if row["isOldestRevision"] else ""
    return f"{short(row['revision']['sha'])}{older}"


def moment(row: ComponentBlame) -> str:
    """Age of the commit, or else of the last write to the field."""
    when = row["revision"]["committedAt"] if row["revision"] else row["at"]
    return age(when) if when else ""
