"""The program below all screens: its source, and its work in the background."""

import threading
from abc import abstractmethod
from collections.abc import Callable
from contextlib import suppress
from typing import ClassVar, TypeVar, cast

from textual import events
from textual.app import App
from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widgets import Input

from core.errors import TowlineError
from towline.cli.cockpit.jump import HINT
from towline.cli.cockpit.prompt import TextPrompt
from towline.cli.cockpit.source import FleetSource
from towline.cli.shell.output import escape_controls

Answer = TypeVar("Answer")


BACK = Binding("escape,q", "app.pop_screen", "Back")


class CockpitProgram(App[None]):
    """A program over a fleet."""

    def __init__(self, source: FleetSource) -> None:
        super().__init__()
        self.source = source

    @abstractmethod
    def jump(self, text: str, cluster: str | None) -> None:
        """Opens the screen that a text names; `cluster` is the one of the present screen."""

    def background(self, work: Callable[[], None]) -> None:
        """Runs work that blocks in a thread, which the end of the program does not wait for."""
        threading.Thread(target=work, daemon=True).start()

    def post(self, call: Callable[..., object], *values: object, **named: object) -> None:
        """Runs a call in the thread of the screens, for work in the background."""
        # The program can end at any moment, also before the call was made.
        with suppress(RuntimeError):
            self.call_from_thread(call, *values, **named)

    def read_or_report(self, read: Callable[[], Answer]) -> Answer | None:
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

    # The priority opens the prompt before the program looks for the target of the next key.
    BINDINGS: ClassVar[list[BindingType]] = [Binding("colon", "jump", "Jump", priority=True)]

    @property
    def cluster(self) -> str | None:
        """Handle of the cluster that the screen is about."""
        return None

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leaves `:` to a line that the user types into."""
        del parameters
        return action != "jump" or not isinstance(self.focused, Input)

    async def action_jump(self) -> None:
        await self._ask_for_target()

    async def on_paste(self, event: events.Paste) -> None:
        """Opens the prompt with a pasted text that begins with `:`."""
        if event.text.startswith(":"):
            await self._ask_for_target(event.text[1:].partition("\n")[0].strip())

    async def _ask_for_target(self, value: str = "") -> None:
        cluster = self.cluster

        def on_typed(text: str | None) -> None:
            if text is not None:
                self.cockpit.jump(text, cluster)

        prompt = TextPrompt("Jump to", HINT, value)
        await self.app.push_screen(prompt, on_typed)
        prompt.take_keys()

    @property
    def cockpit(self) -> CockpitProgram:
        return cast(CockpitProgram, self.app)
