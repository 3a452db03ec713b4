"""The program below all screens: its source, and its work in the background."""

import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar, cast

from textual.app import App
from textual.screen import Screen

from core.errors import TowlineError
from towline.cli.cockpit.source import FleetSource
from towline.cli.shell.output import escape_controls

Answer = TypeVar("Answer")


class CockpitProgram(App[None]):
    """A program over a fleet."""

    def __init__(self, source: FleetSource) -> None:
        super().__init__()
        self.source = source

    def background(self, work: Callable[[], None]) -> None:
        """Runs work that blocks in a thread, which the end of the program does not wait for."""
        threading.Thread(target=work, daemon=True).start()

    def post(self, call: Callable[..., object], *values: object, **named: object) -> None:
        """Runs a call in the thread of the screens, for work in the background."""
        # The program can end at any moment, also before the call was made.
        with suppress(RuntimeError):
            self.call_from_thread(call, *values, **named)

    def tried(self, read: Callable[[], Answer]) -> Answer | None:
        """Returns a result; shows an error and returns None. For work in the background."""
        try:
            return read()
        except TowlineError as error:
            self.report(error)
            return None

    def report(self, error: TowlineError) -> None:
        """Shows an error. For work in the background."""
        message = escape_controls(error.message)
        self.post(self.notify, message, severity="error", markup=False)


class CockpitScreen(Screen[None]):
    """A screen of the cockpit."""

    @property
    def cockpit(self) -> CockpitProgram:
        return cast(CockpitProgram, self.app)
