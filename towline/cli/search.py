"""`towline search` and `towline find`: objects of all clusters, and things by their names."""

from typing import Annotated

import typer

from towline.cli import documents
from towline.cli.output import Column, Format, Row, field, show
from towline.cli.session import PAGE, Output, connect

_OBJECTS = (
    field("CLUSTER"),
    field("SERVICE"),
    field("KIND", "object", "kind"),
    field("NAMESPACE", "object", "namespace"),
    field("NAME", "object", "name"),
    field("STATE", "object", "state"),
    Column("TOLD", lambda row: told(row)),
)
_PLACES = (field("KIND"), field("NAME"), field("IN", "within"), field("ID"))


def told(row: Row) -> str:
    """How old what is known of the object's cluster is."""
    age = row["ageSeconds"]
    if age is None:
        return "never"
    return f"{age:.0f} s ago{', STALE' if row['stale'] else ''}"


def search(
    context: typer.Context,
    query: Annotated[list[str], typer.Argument(help="Terms; all of them hold.")],
    first: Annotated[int, typer.Option(help="How many at most.", min=1, max=PAGE)] = PAGE,
    output: Output = Format.TABLE,
) -> None:
    """Search the objects of all clusters.

    Keys: kind, name, namespace, label, image, owner, service, cluster, health, api, deprecated.
    Words are looked for in names.

    \b
    Example:
      towline search kind:Deployment 'image:log4j<2.17'
      towline search deprecated:1.32 cluster:prod-*
    """
    asked = {"q": " ".join(query), "first": first}
    found = connect(context).ask(documents.SEARCH, **asked)["search"]
    show([edge["node"] for edge in found["edges"]], _OBJECTS, output, "id")
    if output is Format.TABLE and found["pageInfo"]["hasNextPage"]:
        more = "more than " if found["totalCountKind"] == "AT_LEAST" else ""
        print(f"\nthe first {first} of {more}{found['totalCount']:,}: add terms to see others")


def find(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="Any part of a name.")],
    first: Annotated[int, typer.Option(help="How many at most.", min=1, max=50)] = 10,
    output: Output = Format.TABLE,
) -> None:
    """Find clusters, services, groups, repositories and pipelines by name, the best first.

    \b
    Example:
      towline find paym
    """
    found = connect(context).ask(documents.PLACES, q=text, first=first)["places"]
    show(found, _PLACES, output, "id")
