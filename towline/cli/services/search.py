"""`towline search` finds objects of all clusters; `towline find` finds resources by name."""

from typing import Annotated

import typer

from towline.cli.services import generated as operations
from towline.cli.services.generated import Places, SearchNode
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, age_of, field, show
from towline.cli.shell.session import connect

_OBJECTS: tuple[Column[SearchNode], ...] = (
    field("CLUSTER"),
    field("SERVICE"),
    field("KIND", "object", "kind"),
    field("NAMESPACE", "object", "namespace"),
    field("NAME", "object", "name"),
    field("STATE", "object", "state"),
    Column("REPORTED", lambda row: report_age(row)),
)
_PLACES: tuple[Column[Places], ...] = (
    field("KIND"),
    field("NAME"),
    field("IN", "within"),
    field("ID"),
)


def report_age(row: SearchNode) -> str:
    """Age of the cluster's last report, and whether it is stale."""
    age = row["ageSeconds"]
    if age is None:
        return "never"
    return f"{age_of(age)}{', STALE' if row['stale'] else ''}"


def search(
    context: typer.Context,
    query: Annotated[
        list[str], typer.Argument(help="Search terms; an object must match all of them.")
    ],
    first: Annotated[int, typer.Option(help="Maximum number of results.", min=1, max=100)] = 100,
    output: Output = Format.TABLE,
) -> None:
    """Search the objects of all clusters.

    Keys: kind, name, namespace, label, image, owner, service, cluster, health, api, deprecated.
    A term without a key matches names.

    \b
    Example:
      towline search kind:Deployment 'image:log4j<2.17'
      towline search deprecated:1.32 cluster:prod-*
    """
    page = operations.search(connect(context), " ".join(query), first=first)
    show([edge["node"] for edge in page["edges"]], _OBJECTS, output, "id")
    if output.is_table and page["pageInfo"]["hasNextPage"]:
        more = "more than " if page["totalCountKind"] == "AT_LEAST" else ""
        print(
            f"\nshowing {first} of {more}{page['totalCount']:,} results; add terms to narrow them"
        )


def find(
    context: typer.Context,
    text: Annotated[str, typer.Argument(help="Part of a name.")],
    first: Annotated[int, typer.Option(help="Maximum number of results.", min=1, max=50)] = 10,
    output: Output = Format.TABLE,
) -> None:
    """Find clusters, services, groups, repositories and pipelines by name; best matches first.

    \b
    Example:
      towline find paym
    """
    show(operations.places(connect(context), text, first), _PLACES, output, "id")
