"""Options and columns of the commands for global services, service sets and namespaces."""

from collections.abc import Iterable
from typing import Annotated

import typer

from towline.cli.generators.generated import (
    GeneratedService,
    GlobalService,
    Namespace,
    ServiceSet,
)
from towline.cli.shell.output import Column, field

Name = Annotated[str, typer.Argument(help="Name of the resource.")]
Confirm = Annotated[int, typer.Option(help="Allow up to N deletions in this run.", metavar="N")]
Tags = Annotated[
    list[str] | None,
    typer.Option("--tag", help="Clusters with this tag, as name=value; repeatable."),
]
COLUMNS: tuple[Column[GlobalService | ServiceSet | Namespace], ...] = (
    field("NAME"),
    field("WAITING", "state", "waiting"),
    field("PROBLEM", "state", "problem"),
    field("LAST SYNC", "state", "evaluatedAt"),
)
SERVICES: tuple[Column[GeneratedService], ...] = (
    field("CLUSTER", "cluster", "handle"),
    field("NAME"),
    field("NAMESPACE"),
    field("STATUS"),
)


def deleted_services(
    definition: GlobalService | ServiceSet | Namespace, services: Iterable[GeneratedService]
) -> list[str]:
    """Names of the services that go with a definition, as its policy says."""
    objects = "and its objects" if definition["onDelete"] == "DELETE" else "but not its objects"
    return [
        f"service {service['cluster']['handle'] if service['cluster'] else '?'}/{service['name']} "
        f"{objects}"
        for service in services
    ]
