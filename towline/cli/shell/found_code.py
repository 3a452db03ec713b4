"""The option `--exit-code` of commands that list rows."""

from collections.abc import Callable
from functools import wraps
from typing import Annotated

import typer

from core.errors import Invalid
from towline.cli.shell.option_groups import with_flag
from towline.cli.shell.output import shown_rows

FOUND = 7
"""Exit code of commands that find rows or differences, if the user asks for it."""

_ExitCode = Annotated[
    bool, typer.Option("--exit-code", help="Exit with code 7 if there are rows, else with 0.")
]


def with_exit_code(command: Callable[..., None]) -> Callable[..., None]:
    """Adds the option `--exit-code` to a command.

    An error keeps its own code, also that of some clusters without an answer.
    """

    @wraps(command)
    def run(*, exit_code: bool = False, **values: object) -> None:
        if exit_code and values.get("watch"):
            raise Invalid("--watch runs until Ctrl-C; leave out --exit-code", field="--exit-code")
        rows_before = shown_rows()
        command(**values)
        if exit_code and shown_rows() > rows_before:
            raise typer.Exit(FOUND)

    return with_flag(run, command, "exit_code", _ExitCode)
