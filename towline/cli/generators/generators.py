"""Options, columns and commands of global services, service sets and managed namespaces."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Generic, TypeVar

import typer

from towline.cli.generators.generated import (
    GeneratedService,
    GlobalService,
    Namespace,
    ServiceSet,
)
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, field, show
from towline.cli.shell.resource_commands import help_text
from towline.cli.shell.session import connect
from towline.operations import GraphQLApi

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


Definition = TypeVar("Definition", GlobalService, ServiceSet, Namespace)


@dataclass(frozen=True, slots=True)
class DefinitionCommands(Generic[Definition]):
    """Commands that are the same for global services, service sets and managed namespaces.

    `find` finds a definition by name; the other functions are generated operations. `example` is a
    name in help texts.
    """

    group: str
    noun: str
    example: str
    find: Callable[[GraphQLApi, str], Definition]
    list_services: Callable[[GraphQLApi, str], Iterable[GeneratedService]]
    sync_definition: Callable[[GraphQLApi, str, int], Definition]
    delete_definition: Callable[[GraphQLApi, str], Definition]

    def add_to(self, app: typer.Typer) -> None:
        """Adds the commands `services`, `sync` and `delete`."""
        policy = "its policy decides what happens to its services"
        for command, name, sentence, flags in (
            (self.services, "services", f"List the services of a {self.noun}.", ""),
            (self.sync, "sync", "Sync now.", " --confirm 12"),
            (self.delete, "delete", f"Delete a {self.noun}; {policy}.", ""),
        ):
            call = f"towline {self.group} {name} {self.example}{flags}"
            app.command(name, help=help_text(sentence, call))(command)

    def services(self, context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
        api = connect(context)
        show(self.list_services(api, self.find(api, name)["id"]), SERVICES, output, "name")

    def sync(
        self,
        context: typer.Context,
        name: Name,
        confirm: Confirm = 0,
        output: Output = Format.TABLE,
    ) -> None:
        api = connect(context)
        id = self.find(api, name)["id"]
        show(self.sync_definition(api, id, confirm), COLUMNS, output, "name")

    def delete(
        self, context: typer.Context, name: Name, yes: Yes = False, output: Output = Format.TABLE
    ) -> None:
        along = partial(self._deleted_services, context, name)
        confirm_deletion(f"{self.noun} {name}", yes=yes, along=along)
        api = connect(context)
        show(self.delete_definition(api, self.find(api, name)["id"]), COLUMNS, output, "name")

    def _deleted_services(self, context: typer.Context, name: str) -> list[str]:
        """Names of the services that go with a definition, as its policy says."""
        api = connect(context)
        definition = self.find(api, name)
        objects = "and its objects" if definition["onDelete"] == "DELETE" else "but not its objects"
        return [
            f"service {service['cluster']['handle'] if service['cluster'] else '?'}/"
            f"{service['name']} {objects}"
            for service in self.list_services(api, definition["id"])
        ]
