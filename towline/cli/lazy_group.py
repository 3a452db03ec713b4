"""Group of commands that imports the module of a command when the command is called.

All modules together take 200 ms to import. Help lists the summaries of the generated
`commands.json`.
"""

from collections.abc import Callable, Collection, Iterator, Mapping, MutableMapping
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from towline.cli.hinted_group import HintedGroup
from towline.cli.lazy_import import load
from towline.cli.shell.found_code import with_exit_code
from towline.cli.shell.watching import watchable
from towline.completion.candidates import known_commands

_WATCHED = frozenset({"list", "get", "pods", "nodes"})
# A `get` of a group shows one resource: an unknown one already has an exit code.
_LISTS = frozenset({"list", "pods", "nodes"})
_SINGLE_LISTS = frozenset({"get", "search", "find"})


# The API tells changes of these groups.
_SUBSCRIPTIONS = {
    "clusters": "subscription { clusterDelta { id } }",
    "pipelines": "subscription { pipelineDelta { id } }",
    "services": "subscription { serviceDeploymentDelta { id } }",
}


class LazyCommands(MutableMapping[str, Any]):
    """Commands by name; imports each when it is read.

    `places`: module and attribute of each command, as `module:attribute`.
    """

    def __init__(self, places: Mapping[str, str]) -> None:
        self._places = places
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, _, attribute = self._places[name].partition(":")
            self._loaded[name] = _command(name, getattr(load(module), attribute))
        return self._loaded[name]

    def __setitem__(self, name: str, command: Any) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __contains__(self, name: object) -> bool:
        return name in self._places


class LazyGroup(HintedGroup):
    """Group whose help imports no module of a command."""

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Lists the commands with their summaries."""
        known = known_commands()["commands"]
        commands: dict[str, Any] = {
            name: TyperCommand(name, help=known[name]["summary"]) for name in self.commands
        }
        TyperGroup(commands=commands).format_commands(ctx, formatter)


def _command(name: str, loaded: Any) -> Any:
    """Creates the command of a group or of a function."""
    if not isinstance(loaded, typer.Typer):
        single = typer.Typer(add_completion=False, rich_markup_mode=None)
        single.command(name)(_extended(name, loaded, _SINGLE_LISTS, ""))
        return get_command(single)
    _extend_lists(loaded, _SUBSCRIPTIONS.get(name, ""))
    parent = typer.Typer(add_completion=False, rich_markup_mode=None)
    parent.add_typer(loaded, name=name, cls=HintedGroup)
    return cast(TyperGroup, get_command(parent)).commands[name]


def _extend_lists(group: typer.Typer, document: str) -> None:
    """Extends the commands that show resources, also in the groups of a group."""
    for registered in group.registered_commands:
        if registered.name and registered.callback:
            registered.callback = _extended(registered.name, registered.callback, _LISTS, document)
    for subgroup in group.registered_groups:
        if subgroup.typer_instance is not None:
            _extend_lists(subgroup.typer_instance, "")


def _extended(
    name: str, command: Callable[..., None], lists: Collection[str], document: str
) -> Callable[..., None]:
    """Adds `--watch` to commands that show resources, and `--exit-code` to those in `lists`."""
    if name in _WATCHED:
        command = watchable(command, document=document)
    return with_exit_code(command) if name in lists else command
