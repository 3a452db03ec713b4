"""`towline version`, `towline help` and `towline open`."""

import sys
import webbrowser
from collections.abc import Callable, Mapping
from enum import StrEnum
from typing import Annotated

import typer

from core import __version__
from core.errors import Invalid, TowlineError
from towline.cli.clusters import generated as cluster_operations
from towline.cli.clusters.find import find_cluster
from towline.cli.pipelines.find import find_pipeline
from towline.cli.secrets.find import find_secret
from towline.cli.services.find import find_service
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import field, say, show
from towline.cli.shell.session import connect, selected_target
from towline.operations import GraphQLApi


class ConsolePage(StrEnum):
    """Page of the console."""

    FLEET = "fleet"
    SERVICE = "service"
    CLUSTER = "cluster"
    PIPELINE = "pipeline"
    SECRET = "secret"
    ACCESS = "access"
    AUDIT = "audit"


_PATHS: Mapping[ConsolePage, Callable[[GraphQLApi, str], str]] = {
    ConsolePage.SERVICE: lambda api, name: f"/services/{find_service(api, name)['id']}",
    ConsolePage.CLUSTER: lambda api, name: f"/clusters/{find_cluster(api, name)['handle']}",
    ConsolePage.PIPELINE: lambda api, name: f"/pipelines/{find_pipeline(api, name)['id']}",
    ConsolePage.SECRET: lambda api, name: f"/secrets/{find_secret(api, name)['id']}",
}
_LISTS = {
    ConsolePage.FLEET: "/",
    ConsolePage.SERVICE: "/services",
    ConsolePage.CLUSTER: "/clusters",
    ConsolePage.PIPELINE: "/pipelines",
    ConsolePage.SECRET: "/secrets",
    ConsolePage.ACCESS: "/access",
    ConsolePage.AUDIT: "/audit",
}


def version(context: typer.Context, output: Output = Format.TABLE) -> None:
    """Show the version of this program, and of the control plane.

    \b
    Example:
      towline version
    """
    row = {"client": __version__, "server": ""}
    problem = ""
    try:
        row["server"] = cluster_operations.installation(connect(context))["version"]
    except TowlineError as error:
        problem = error.message
    show(row, (field("CLIENT"), field("SERVER")), output, "client")
    if problem:
        say(f"no version of the control plane: {problem}")


def show_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Words of the command.")
    ] = None,
) -> None:
    """Show the help of a command.

    \b
    Example:
      towline help services list
    """
    parent = context.parent
    assert parent is not None, "the program is the parent of its commands"
    for word in words or ():
        command = getattr(parent.command, "commands", {}).get(word)
        if command is None:
            raise Invalid(f"{parent.command_path} has no command {word!r}")
        parent = typer.Context(command, info_name=word, parent=parent)
    print(parent.get_help())


def open_page(
    context: typer.Context,
    page: Annotated[ConsolePage, typer.Argument(help="Page of the console.")] = ConsolePage.FLEET,
    name: Annotated[
        str | None, typer.Argument(help="Name of the resource (default: the list).")
    ] = None,
    browser: Annotated[
        bool, typer.Option("--browser/--no-browser", help="Open a browser on a terminal.")
    ] = True,
) -> None:
    """Print the address of a page of the console, and open it in a browser.

    \b
    Example:
      towline open
      towline open service prod-eu/web
    """
    path = _LISTS[page]
    if name is not None:
        if page not in _PATHS:
            raise Invalid(f"the page {page} has no names")
        path = _PATHS[page](connect(context), name)
    url = f"{selected_target(context).url}{path}"
    print(url)
    if browser and sys.stdout.isatty():
        webbrowser.open(url)
