"""A screen with a text, such as a manifest or a log."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.widgets import Footer, RichLog, Static

from core.errors import TowlineError
from towline.cli.cockpit.program import BACK, CockpitScreen
from towline.cli.shell.output import escape_controls

_MAX_LINES = 5_000


class TextScreen(CockpitScreen):
    """A text that is read in the background; `follows`: until it ends, newest line in view."""

    BINDINGS: ClassVar[list[BindingType]] = [BACK]

    def __init__(
        self,
        title: str,
        read: Callable[[], Iterable[str]],
        *,
        cluster: str | None = None,
        follows: bool = False,
    ) -> None:
        """`read` yields parts of the text, each on a line of its own."""
        super().__init__()
        self._title = title
        self._read = read
        self._cluster = cluster
        self._follows = follows

    @property
    def cluster(self) -> str | None:
        return self._cluster

    def compose(self) -> ComposeResult:
        yield Static(Text(self._title), classes="title")
        yield RichLog(max_lines=_MAX_LINES, auto_scroll=self._follows)
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(RichLog).focus()
        self.cockpit.background(self._fill)

    def _fill(self) -> None:
        log, cockpit = self.query_one(RichLog), self.cockpit
        try:
            for part in self._read():
                if not self.is_attached:
                    return
                cockpit.post(log.write, Text(escape_controls(part)))
        except TowlineError as error:
            cockpit.report(error)
        if self._follows:
            cockpit.post(log.write, Text("(the log ended)", style="dim"))
