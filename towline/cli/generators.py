"""Code shared by the commands for global services, service sets and managed namespaces."""

from typing import Annotated, Any

import typer

from towline.cli.generator_documents import Documents
from towline.cli.output import Column, Format, field, show
from towline.cli.session import GraphQLApi, Json, connect, every

Name = Annotated[str, typer.Argument(help="Name of the resource.")]
Confirm = Annotated[int, typer.Option(help="Allow up to N deletions in this run.", metavar="N")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Clusters with this tag, as name=value; repeatable."),
]
COLUMNS: tuple[Column, ...] = (
    field("NAME"),
    field("WAITING", "state", "waiting"),
    field("PROBLEM", "state", "problem"),
    field("LAST SYNC", "state", "evaluatedAt"),
)
SERVICES = (
    field("CLUSTER", "cluster", "handle"),
    field("NAME"),
    field("NAMESPACE"),
    field("STATUS"),
)


def find(api: GraphQLApi, documents: Documents, name: str) -> Json:
    """Fetches a definition by name. Raises NotFound."""
    return api.ask(documents.one, name=name)[documents.root]


def list_all(
    context: typer.Context, documents: Documents, query: str | None, output: Format
) -> None:
    """Prints all definitions that the user may read."""
    show(every(connect(context), documents.every, q=query), COLUMNS, output, "name")


def list_services(context: typer.Context, documents: Documents, name: str, output: Format) -> None:
    """Prints the services of one definition."""
    api = connect(context)
    (found,) = api.ask(documents.services, id=find(api, documents, name)["id"]).values()
    show(found, SERVICES, output, "name")


def run_mutation(
    context: typer.Context,
    documents: Documents,
    document: str,
    name: str,
    output: Format,
    **variables: Any,
) -> None:
    """Runs a mutation on the named definition and prints the result."""
    api = connect(context)
    id = find(api, documents, name)["id"]
    (changed,) = api.ask(document, id=id, **variables).values()
    show(changed, COLUMNS, output, "name")


def named(words: dict[str, str]) -> list[Json]:
    """Converts values by name to the API's list of pairs."""
    return [{"name": name, "value": value} for name, value in words.items()]
