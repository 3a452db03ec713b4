"""The option `--watch` of commands that show resources."""

import io
import sys
import time
from collections.abc import Callable
from contextlib import closing, redirect_stdout, suppress
from functools import wraps
from typing import TYPE_CHECKING, Annotated, TextIO, cast

import typer

from core.errors import Unavailable
from towline.cli.lazy_import import load
from towline.cli.shell.option_groups import with_flag
from towline.cli.shell.session import selected_target

if TYPE_CHECKING:
    from towline.subscription import Subscription

POLL_SECONDS = 2.0
# Tables show ages, which grow without a change.
AGES_SECONDS = 30.0
_CLEAR = "\x1b[H\x1b[J"
_Watch = Annotated[
    bool, typer.Option("--watch", "-w", help="Show the result again when it changes, until Ctrl-C.")
]


def watchable(
    command: Callable[..., None],
    *,
    document: str = "",
    sleep: Callable[[float], None] = time.sleep,
) -> Callable[..., None]:
    """Adds the option `--watch` to a command.

    It then runs after each change that the subscription `document` tells; without a document, or
    while the subscription is away, every 2 s.
    """

    @wraps(command)
    def run(*, watch: bool = False, **values: object) -> None:
        if not watch:
            return command(**values)
        try:
            with closing(_Changes(values.get("context"), document, sleep)) as changes:
                _repeat(lambda: command(**values), changes.wait)
        except KeyboardInterrupt:
            return None

    return with_flag(run, command, "watch", _Watch)


class _Changes:
    """Waits for changes, by a subscription if there is one."""

    def __init__(self, context: object, document: str, sleep: Callable[[float], None]) -> None:
        self._context = context
        self._document = document
        self._sleep = sleep
        # Opened before the first result, so that no change is missed.
        self._subscription = self._open()

    def wait(self) -> None:
        if self._subscription is None:
            self._sleep(POLL_SECONDS)
            self._subscription = self._open()
            return
        try:
            self._subscription.changes(AGES_SECONDS)
        except Unavailable:
            self.close()

    def close(self) -> None:
        if self._subscription is not None:
            self._subscription.close()
        self._subscription = None

    def _open(self) -> "Subscription | None":
        if not self._document:
            return None
        try:
            target = selected_target(cast(typer.Context, self._context))
            return load("towline.subscription").Subscription(target, self._document)
        except Unavailable:
            return None


class _Captured(io.StringIO):
    """Output of one run, formatted as for the real output."""

    def __init__(self, out: TextIO) -> None:
        super().__init__()
        self._terminal = out.isatty()

    def isatty(self) -> bool:
        return self._terminal


def _repeat(command: Callable[[], None], wait: Callable[[], None]) -> None:
    out, previous = sys.stdout, None
    while True:
        captured = _Captured(out)
        # A partial result is shown too.
        with redirect_stdout(captured), suppress(typer.Exit):
            command()
        if (output := captured.getvalue()) != previous:
            out.write(f"{_CLEAR if out.isatty() else ''}{output}")
            out.flush()
            previous = output
        wait()
