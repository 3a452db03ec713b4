"""`towline blame`: which commit, or which person, decided on the fields of an object."""

from typing import Annotated

import typer

from fleet.errors import Invalid, NotFound
from towline.cli import documents
from towline.cli.output import Column, Format, Row, age, field, short, show
from towline.cli.session import Api, Output, connect, find_service

_FIELDS = (
    field("FIELD", "pointer"),
    field("VALUE"),
    Column("FROM", lambda row: origin(row)),
    field("BY", "person"),
    Column("WHEN", lambda row: moment(row)),
)


def blame(
    context: typer.Context,
    service: Annotated[str, typer.Argument(help="cluster/name, name, or id of the service.")],
    thing: Annotated[str, typer.Argument(help="kind/name, or kind/namespace/name.")],
    under: Annotated[
        str, typer.Option("--field", help="JSON pointer: only what is below it.")
    ] = "",
    output: Output = Format.TABLE,
) -> None:
    """Tell for each field of an object which commit or person it comes from.

    \b
    Example:
      towline blame prod-eu/web Deployment/web --field /spec
    """
    api = connect(context)
    asked = {"id": find_object(api, service, thing), "pointer": under}
    show(api.ask(documents.COMPONENT_BLAME, **asked)["componentBlame"], _FIELDS, output, "pointer")


def find_object(api: Api, service: str, thing: str) -> str:
    """The id of a service's object. NotFound: there is none. Invalid: several are meant."""
    parts = thing.split("/")
    if len(parts) not in (2, 3):
        raise Invalid(f"{thing!r} is not kind/name or kind/namespace/name")
    id = find_service(api, service)["id"]
    found = api.ask(documents.OBJECTS_OF_SERVICE, id=id)["serviceDeployment"]["components"]
    kind, *place, name = parts
    meant = [
        one
        for one in found
        if (one["kind"].lower(), one["name"]) == (kind.lower(), name)
        and place in ([], [one["namespace"]])
    ]
    if not meant:
        raise NotFound(f"service {service} has no {thing}")
    if len(meant) > 1:
        raise Invalid(f"several are called {thing}: say kind/namespace/name")
    return meant[0]["id"]


def origin(row: Row) -> str:
    """The commit, or who wrote the field instead."""
    if row["revision"] is None:
        return str(row["manager"])
    older = " or older" if row["isOldestRevision"] else ""
    return f"{short(row['revision']['sha'])}{older}"


def moment(row: Row) -> str:
    """When the commit was made, or the field was written."""
    when = row["revision"]["committedAt"] if row["revision"] else row["at"]
    return age(when) if when else ""
