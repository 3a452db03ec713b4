"""Asks before a command deletes something."""

import sys
from collections.abc import Callable, Iterable
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.shell.output import escape_controls, say

_MAX_SHOWN = 20

Approve = Annotated[bool, typer.Option("--yes", "-y", help="Approve without asking.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")]


def confirm_deletion(what: str, *, yes: bool, along: Callable[[], Iterable[str]] = tuple) -> None:
    """Shows what goes along with a resource, and asks whether to delete it.

    Ends the command with exit code 1 if the user refuses. Invalid: standard input is no terminal,
    so nobody can answer.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"cannot ask before deleting {what} without a terminal; use --yes")
    names = list(along())
    for name in names[:_MAX_SHOWN]:
        say(f"also deletes {name}")
    if len(names) > _MAX_SHOWN:
        say(f"and {len(names) - _MAX_SHOWN} more")
    typer.confirm(f"Delete {escape_controls(what)}?", abort=True, err=True)


def confirm_approval(what: str, *, yes: bool) -> None:
    """Asks whether to approve a plan.

    Ends the command with exit code 1 if the user refuses. Invalid: standard input is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"cannot ask before approving {what} without a terminal; use --yes")
    typer.confirm(f"Approve {escape_controls(what)}?", abort=True, err=True)
