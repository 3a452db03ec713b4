"""A question that is answered with one line of text."""

from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

_MAX_LENGTH = 300


class TextPrompt(ModalScreen[str]):
    """Asks for a text, which is never empty; Escape gives none."""

    DEFAULT_CSS = """
    TextPrompt { align: center middle; }
    TextPrompt > Vertical {
        width: 70; max-width: 100%; height: auto; border: round $primary; padding: 1 2;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "dismiss", "Back")]

    def __init__(self, title: str, hint: str = "", value: str = "") -> None:
        """`hint` stands in the empty field; `value` is the first text."""
        super().__init__()
        self._title = title
        self._hint = hint
        self._value = value

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(self._title, markup=False)
            yield Input(self._value, placeholder=self._hint, max_length=_MAX_LENGTH)

    def take_keys(self) -> None:
        """Makes the field the target of the next key. The screen itself would do so only later."""
        self.set_focus(self.query_one(Input))

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if text := event.value.strip():
            self.dismiss(text)
