"""The command `towline ui`."""

import sys
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.clusters import generated as cluster_operations
from towline.cli.lazy_import import load
from towline.cli.shell.output import is_terminal
from towline.cli.shell.session import global_flags, target_of
from towline.contexts import GlobalFlags


def ui(
    context: typer.Context,
    text: Annotated[
        str, typer.Argument(metavar="[FILTER]", help="Text of the first filter, as after `/`.")
    ] = "",
) -> None:
    """Browse the fleet in the terminal: services, their objects, manifests, events and logs.

    The list follows all changes. Press `?` for the keys.

    \b
    Example:
      towline ui
      towline ui prod-eu/
    """
    browse(global_flags(context), text)


def browse(flags: GlobalFlags, text: str) -> None:
    """Shows the fleet of a control plane until the user quits. Invalid: there is no terminal."""
    target = target_of(flags)
    api = load("towline.client").GraphQLClient(target)
    # Asked first: an error is easier to read outside of the full screen.
    cluster_operations.installation(api)
    if not (sys.stdin.isatty() and is_terminal()):
        raise Invalid("towline ui needs a terminal; `towline services list` does not")
    load("towline.cli.cockpit.app").Cockpit(
        load("towline.cli.cockpit.source").ControlPlaneFleet(api, target, flags.config), text
    ).run()
