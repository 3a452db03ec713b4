"""`towline version`, `towline help` and `towline open`."""

import sys
import webbrowser
from collections.abc import Callable, Mapping
from functools import partial
from typing import Annotated

import typer
from typer.core import TyperGroup

from core import __version__
from core.errors import Invalid, TowlineError
from towline.cli.clusters import generated as cluster_operations
from towline.cli.clusters.find import find_cluster
from towline.cli.pipelines.find import find_pipeline
from towline.cli.secrets.find import find_secret
from towline.cli.services.find import find_service
from towline.cli.shell.formats import Format, Output
from towline.cli.shell.output import field, say, show
from towline.cli.shell.session import connect, first_found, selected_target
from towline.operations import GraphQLApi

_LISTS = {
    "fleet": "/",
    "inbox": "/inbox",
    "service": "/services",
    "cluster": "/clusters",
    "pipeline": "/pipelines",
    "object": "/search",
    "repository": "/repositories",
    "global": "/generators",
    "secret": "/secrets",
    "context": "/contexts",
    "notification": "/notifications",
    "report": "/reports",
    "audit": "/audit",
    "access": "/access",
    "user": "/people",
    "project": "/projects",
    "installation": "/installation",
}
"""Paths of the console's pages."""
PATHS: Mapping[str, Callable[[GraphQLApi, str], str]] = {
    "service": lambda api, name: f"/services/{find_service(api, name)['id']}",
    "cluster": lambda api, name: f"/clusters/{find_cluster(api, name)['handle']}",
    "pipeline": lambda api, name: f"/pipelines/{find_pipeline(api, name)['id']}",
    "secret": lambda api, name: f"/secrets/{find_secret(api, name)['id']}",
}
"""Paths of the pages of resources, by the page of their list."""


class ConsolePage(str):
    """Page of the console, or the name of a resource."""

    WORDS = tuple(_LISTS)


_FLEET = ConsolePage("fleet")


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
        if not isinstance(parent.command, TyperGroup):
            raise Invalid(f"{parent.command_path} has no command {word!r}")
        _, command, _ = parent.command.resolve_command(parent, [word])
        assert command is not None, "an unknown command has ended this one"
        parent = typer.Context(command, info_name=word, parent=parent)
    print(parent.get_help())


def open_page(
    context: typer.Context,
    page: Annotated[
        ConsolePage,
        typer.Argument(
            parser=ConsolePage,
            metavar="PAGE|CLUSTER/NAME",
            help=f"Page of the console: {', '.join(ConsolePage.WORDS)}; or the name of a service, "
            "cluster, pipeline or secret.",
        ),
    ] = _FLEET,
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
      towline open prod-eu/web
      towline open pipeline shop
    """
    path = _LISTS.get(page)
    if path is None or name is not None:
        path = _path_of_resource(connect(context), page, name)
    url = f"{selected_target(context).url}{path}"
    print(url)
    if browser and sys.stdout.isatty():
        webbrowser.open(url)


def _path_of_resource(api: GraphQLApi, page: str, name: str | None) -> str:
    """Path of a resource's page: by its list and name, or by its name alone."""
    if name is not None:
        if page not in PATHS:
            raise Invalid(f"the page {page} has no names")
        return PATHS[page](api, name)
    if "/" in page:
        return PATHS["service"](api, page)
    lookups = [partial(lookup, api, page) for lookup in PATHS.values()]
    pages = ", ".join(_LISTS)
    return first_found(f"a page or a resource with the name {page!r}; pages: {pages}", *lookups)
