"""Asks before a command deletes or changes something."""

import sys
from collections.abc import Callable, Iterable, Sequence
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
    _list_first([f"also deletes {name}" for name in along()])
    typer.confirm(f"Delete {escape_controls(what)}?", abort=True, err=True)


def confirm_changes(what: str, effects: Sequence[str], *, yes: bool) -> None:
    """Shows the effects of changes, and asks whether to make them, as for a deletion.

    `what`: verb and number of objects, such as `Sync 3 services`.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"cannot ask before this without a terminal: {what}; use --yes or --dry-run")
    _list_first(effects)
    typer.confirm(f"{what}?", abort=True, err=True)


def confirm_approval(what: str, *, yes: bool) -> None:
    """Asks whether to approve a plan.

    Ends the command with exit code 1 if the user refuses. Invalid: standard input is no terminal.
    """
    if yes:
        return
    if not sys.stdin.isatty():
        raise Invalid(f"cannot ask before approving {what} without a terminal; use --yes")
    typer.confirm(f"Approve {escape_controls(what)}?", abort=True, err=True)


def _list_first(lines: Sequence[str]) -> None:
    for line in lines[:_MAX_SHOWN]:
        say(line)
    if len(lines) > _MAX_SHOWN:
        say(f"and {len(lines) - _MAX_SHOWN} more")
