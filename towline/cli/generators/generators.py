"""Options and columns of the commands for global services, service sets and namespaces."""

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
