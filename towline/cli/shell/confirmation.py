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
    if not yes:
        _require_terminal(f"before deleting {what} without a terminal; use --yes")
        _confirm(f"Delete {what}?", [f"also deletes {name}" for name in along()])


def confirm_changes(what: str, effects: Sequence[str], *, yes: bool) -> None:
    """Shows the effects of changes, and asks whether to make them, as for a deletion.

    `what`: verb and number of objects, such as `Sync 3 services`.
    """
    if not yes:
        _require_terminal(f"before this without a terminal: {what}; use --yes or --dry-run")
        _confirm(f"{what}?", effects)


def confirm_approval(what: str, *, yes: bool) -> None:
    """Asks whether to approve a plan.

    Ends the command with exit code 1 if the user refuses. Invalid: standard input is no terminal.
    """
    if not yes:
        _require_terminal(f"before approving {what} without a terminal; use --yes")
        _confirm(f"Approve {what}?")


def _require_terminal(problem: str) -> None:
    if not sys.stdin.isatty():
        raise Invalid(f"cannot ask {problem}")


def _confirm(question: str, lines: Sequence[str] = ()) -> None:
    for line in lines[:_MAX_SHOWN]:
        say(line)
    if len(lines) > _MAX_SHOWN:
        say(f"and {len(lines) - _MAX_SHOWN} more")
    typer.confirm(escape_controls(question), abort=True, err=True)
