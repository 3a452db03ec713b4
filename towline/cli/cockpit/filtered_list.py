"""A list with a filter line below it, which `/` opens."""

from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.message import Message
from textual.widgets import Input

from towline.cli.cockpit.line_list import Item, LineList


class FilteredList(Vertical):
    """A list whose screen shows only the items that match `text`."""

    # The priority opens the line before the program looks for the target of the next key.
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "filter", "Filter", priority=True),
        Binding("escape", "clear", "All", show=False),
    ]

    class Filtered(Message):
        """The user has changed the text."""

    class Cleared(Message):
        """The user has asked for all items."""

    def __init__(self, lines: LineList[Item], text: str = "") -> None:
        """`text` is the first filter."""
        super().__init__()
        self.text = text
        self._lines = lines
        self._is_open = False

    def compose(self) -> ComposeResult:
        yield self._lines
        yield Input(self.text, placeholder="filter")

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self._lines.focus()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Leaves `/` to the open line, and Escape to the screen if there is nothing to clear."""
        del parameters
        allowed = {"filter": not self._is_open, "clear": self._is_open or bool(self.text)}
        return allowed.get(action, True)

    def action_filter(self) -> None:
        self._show_line(True)

    def action_clear(self) -> None:
        """Closes the line; clears the filter if the line is closed."""
        if self._is_open:
            self._show_line(False)
        else:
            self.query_one(Input).value = ""
            self.post_message(self.Cleared())

    def on_paste(self, event: events.Paste) -> None:
        """Opens the line with a pasted text that begins with `/`."""
        if event.text.startswith("/") and not self._is_open:
            event.stop()
            self._show_line(True)
            self.query_one(Input).value = event.text[1:].partition("\n")[0].strip()

    def on_input_changed(self, event: Input.Changed) -> None:
        event.stop()
        if event.value != self.text:
            self.text = event.value
            self.post_message(self.Filtered())

    def on_input_submitted(self, event: Input.Submitted) -> None:
        event.stop()
        self._show_line(False)

    def _show_line(self, is_open: bool) -> None:
        """Opens or closes the line, and makes it or the list the target of the next key."""
        self._is_open = is_open
        line = self.query_one(Input)
        line.display = is_open
        # `focus` would wait for a later message: keys that come before it would go elsewhere.
        self.screen.set_focus(line if is_open else self._lines)
