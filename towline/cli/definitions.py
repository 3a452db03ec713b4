"""What the commands on global services, service sets and managed namespaces share."""

from typing import Annotated, Any

import typer

from towline.cli.fleetdocuments import Documents
from towline.cli.output import Column, Format, field, show
from towline.cli.session import Api, Json, connect, every

Name = Annotated[str, typer.Argument(help="Its name.")]
Confirm = Annotated[int, typer.Option(help="So many removals may be made, once.")]
Tags = Annotated[
    list[str] | None, typer.Option("--tag", help="Clusters with this tag, as name=value; again.")
]
COLUMNS: tuple[Column, ...] = (
    field("NAME"),
    field("WAITING", "state", "waiting"),
    field("PROBLEM", "state", "problem"),
    field("LOOKED", "state", "evaluatedAt"),
)
SERVICES = (
    field("CLUSTER", "cluster", "handle"),
    field("NAME"),
    field("NAMESPACE"),
    field("STATUS"),
)


def find(api: Api, documents: Documents, name: str) -> Json:
    """The one of this name. NotFound."""
    return api.ask(documents.one, name=name)[documents.root]


def list_all(
    context: typer.Context, documents: Documents, query: str | None, output: Format
) -> None:
    """Print all that may be seen."""
    show(every(connect(context), documents.every, q=query), COLUMNS, output, "name")


def list_services(context: typer.Context, documents: Documents, name: str, output: Format) -> None:
    """Print what comes from one."""
    api = connect(context)
    (found,) = api.ask(documents.services, id=find(api, documents, name)["id"]).values()
    show(found, SERVICES, output, "name")


def act(
    context: typer.Context,
    documents: Documents,
    document: str,
    name: str,
    output: Format,
    **variables: Any,
) -> None:
    """Do something to the one of this name, and print it."""
    api = connect(context)
    id = find(api, documents, name)["id"]
    (changed,) = api.ask(document, id=id, **variables).values()
    show(changed, COLUMNS, output, "name")


def named(words: dict[str, str]) -> list[Json]:
    """Values by name, as the API takes them."""
    return [{"name": name, "value": value} for name, value in words.items()]
