"""Commands that are the same for all kinds of repositories in registries."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Generic, TypedDict, TypeVar

import typer

from towline.cli.projects.find import find_project
from towline.cli.shell.confirmation import Yes, confirm_deletion
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import Column, Row, age_column, field, say, show
from towline.cli.shell.resource_commands import add_list, help_text
from towline.cli.shell.session import connect
from towline.input_files import read_secret
from towline.operations import GraphQLApi

if TYPE_CHECKING:
    from towline.generated_inputs import OciRepositoryAttributes

Name = Annotated[str, typer.Argument(help="URL or id of the repository.")]
Url = Annotated[str, typer.Argument(help="URL of the repository.")]
NewUrl = Annotated[str | None, typer.Option(help="New URL.")]
Username = Annotated[str | None, typer.Option(help="Username.")]
PasswordFile = Annotated[Path | None, typer.Option(help="File containing the password or token.")]
Project = Annotated[str | None, typer.Option(help="Name of the project.")]
POLL_STARTED = "a poll was started; the row shows the state before the poll"
"""Message of the commands that poll now: the control plane does not wait for the server."""


class RegistryRepository(TypedDict):
    """Fields of all kinds that commands read."""

    id: str


R = TypeVar("R", bound=RegistryRepository)
Part = TypeVar("Part", bound=Row)


@dataclass(frozen=True, slots=True)
class RegistryOperations(Generic[R]):
    """Generated operations of a kind; all kinds have the same attributes.

    `find` finds a repository by URL or id.
    """

    list: Callable[..., Iterable[R]]
    find: Callable[[GraphQLApi, str], R]
    create: "Callable[[GraphQLApi, OciRepositoryAttributes], R]"
    update: "Callable[[GraphQLApi, str, OciRepositoryAttributes], R]"
    delete: Callable[[GraphQLApi, str], R]
    sync: Callable[[GraphQLApi, str], R]


@dataclass(frozen=True, slots=True)
class RegistryWords:
    """Words of help texts: the group of commands, an article and a noun, and URLs of examples.

    `content` says what `get` shows.
    """

    group: str
    article: str
    noun: str
    content: str
    url: str
    private_url: str


@dataclass(frozen=True, slots=True)
class RegistryContent(Generic[R, Part]):
    """Content of a repository that services use, as rows of a table."""

    of: Callable[[R], Iterable[Part]]
    columns: tuple[Column[Part], ...]
    key: str


@dataclass(frozen=True, slots=True)
class RegistryCommands(Generic[R, Part]):
    """The commands of a kind."""

    words: RegistryWords
    operations: RegistryOperations[R]
    content: RegistryContent[R, Part]

    def app(self, help: str) -> typer.Typer:
        """Returns the group of commands."""
        app, words = typer.Typer(no_args_is_help=True, help=help), self.words
        phrase, changed = f"{words.article} {words.noun}", "Update only the given fields of"
        login = "--username bot --password-file token"
        plural = f"{words.noun[:-1]}ies"
        listed = (self.operations.list, self._columns, "url")
        add_list(app, f"towline {words.group} list", f"List {plural}.", *listed)
        for command, name, sentence, example in (
            (self.get, "get", words.content, words.url),
            (self.create, "create", f"Add {phrase}.", f"{words.private_url} {login}"),
            (self.update, "update", f"{changed} {phrase}.", f"{words.url} {login}"),
            (self.delete, "delete", f"Delete {phrase} that no service uses.", words.url),
            (self.sync, "sync", f"Poll {phrase} now.", words.url),
        ):
            call = f"towline {words.group} {name} {example}"
            app.command(name, help=help_text(sentence, call))(command)
        return app

    def get(self, context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
        row = self.operations.find(connect(context), name)
        if output.is_table:
            show(self.content.of(row), self.content.columns, output, self.content.key)
        else:
            show(row, self._columns, output, "url")

    def create(
        self,
        context: typer.Context,
        url: Url,
        username: Username = None,
        password_file: PasswordFile = None,
        project: Project = None,
        output: Output = Format.TABLE,
    ) -> None:
        api = connect(context)
        attributes: OciRepositoryAttributes = {
            "url": url,
            "username": username,
            "password": read_secret(password_file, "--password-file"),
            "projectId": find_project(api, project)["id"] if project else None,
        }
        show(self.operations.create(api, attributes), self._columns, output, "url")

    def update(
        self,
        context: typer.Context,
        name: Name,
        url: NewUrl = None,
        username: Username = None,
        password_file: PasswordFile = None,
        output: Output = Format.TABLE,
    ) -> None:
        api = connect(context)
        attributes: OciRepositoryAttributes = {
            "url": url,
            "username": username,
            "password": read_secret(password_file, "--password-file"),
        }
        id = self.operations.find(api, name)["id"]
        show(self.operations.update(api, id, attributes), self._columns, output, "url")

    def delete(
        self,
        context: typer.Context,
        name: Name,
        yes: Yes = False,
        output: Output = Format.TABLE,
    ) -> None:
        confirm_deletion(f"{self.words.noun} {name}", yes=yes)
        api = connect(context)
        id = self.operations.find(api, name)["id"]
        show(self.operations.delete(api, id), self._columns, output, "url")

    def sync(self, context: typer.Context, name: Name, output: Output = Format.TABLE) -> None:
        api = connect(context)
        id = self.operations.find(api, name)["id"]
        show(self.operations.sync(api, id), self._columns, output, "url")
        say(POLL_STARTED)

    @property
    def _columns(self) -> tuple[Column[R], ...]:
        return field("URL"), field("HEALTH"), age_column("LAST POLL", "polledAt"), field("ERROR")
