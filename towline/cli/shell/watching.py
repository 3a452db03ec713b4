"""The option `--watch` of commands that show resources."""

import inspect
import io
import sys
import time
from collections.abc import Callable
from contextlib import redirect_stdout, suppress
from functools import wraps
from typing import Annotated, TextIO

import typer

POLL_SECONDS = 2.0
_CLEAR = "\x1b[H\x1b[J"
_Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show the result again when it changes, until Ctrl-C.")
]


def watchable(
    command: Callable[..., None], *, sleep: Callable[[float], None] = time.sleep
) -> Callable[..., None]:
    """Adds the option `--watch` to a command, which then runs every 2 s."""

    @wraps(command)
    def run(*, watch: bool = False, **values: object) -> None:
        if not watch:
            return command(**values)
        try:
            _repeat(lambda: command(**values), sleep)
        except KeyboardInterrupt:
            return None

    option = inspect.Parameter(
        "watch", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=_Watch
    )
    given = [
        parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(command).parameters.values()
    ]
    vars(run)["__signature__"] = inspect.Signature([*given, option])
    run.__annotations__ = {**command.__annotations__, "watch": _Watch}
    return run


class _Captured(io.StringIO):
    """Output of one run, formatted as for the real output."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._terminal = out.isatty()

    def isatty(self) -> bool:
        return self._terminal


def _repeat(command: Callable[[], None], sleep: Callable[[float], None]) -> None:
    out, shown = sys.stdout, None
    while True:
        captured = _Captured(out)
        # A partial result is shown too.
        with redirect_stdout(captured), suppress(typer.Exit):
            command()
        if (text := captured.getvalue()) != shown:
            out.write(f"{_CLEAR if out.isatty() else ''}{text}")
            out.flush()
            shown = text
        sleep(POLL_SECONDS)
