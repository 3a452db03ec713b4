"""Changes, each after a confirmation that shows the effect."""

from collections.abc import Callable, Iterable, Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical, VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from core.errors import NotFound, TowlineError
from towline.cli.cockpit.fleet import FleetLine
from towline.cli.cockpit.program import CockpitProgram
from towline.cli.shell.output import escape_controls, short

Effect = Callable[[], Iterable[str]]
"""Reads the lines that describe the effect of a change; they can have colours."""


class ChangeConfirmation(ModalScreen[bool]):
    """Asks before a change, and shows its effect as soon as it is known; y confirms."""

    DEFAULT_CSS = """
    ChangeConfirmation { align: center middle; }
    ChangeConfirmation > Vertical {
        width: 90; max-width: 100%; height: auto; border: round $warning; padding: 1 2;
    }
    ChangeConfirmation VerticalScroll { height: auto; max-height: 14; margin: 1 0; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, cockpit: CockpitProgram, question: str, effect: Effect) -> None:
        super().__init__()
        self._cockpit = cockpit
        self._question = question
        self._effect = effect

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._question))
            with VerticalScroll():
                yield Static("Checking the effect …", id="effect")
            yield Static("y: yes   n: no")

    def on_mount(self) -> None:
        self.query_one(VerticalScroll).focus()
        self._cockpit.background(self._read_effect)

    def _read_effect(self) -> None:
        try:
            lines = list(self._effect())
        except TowlineError as error:
            lines = [f"Could not determine the effect: {escape_controls(error.message)}"]
        self._cockpit.post(self._show_effect, Text.from_ansi("\n".join(lines)))

    def _show_effect(self, text: Text) -> None:
        if self.is_attached:
            self.query_one("#effect", Static).update(text)


def change_service(cockpit: CockpitProgram, action: str, line: FleetLine) -> None:
    """Changes a service after a confirmation, in the background.

    `action` is `sync`, `unpin` or `roll_back`.
    """
    _CHANGES[action](cockpit, line)


def _sync(cockpit: CockpitProgram, line: FleetLine) -> None:
    source, id = cockpit.source, line.id
    question = f"Sync {line.label} now?"
    confirm(cockpit, question, lambda: source.sync_effect(id), lambda: source.sync(id))


def _unpin(cockpit: CockpitProgram, line: FleetLine) -> None:
    source, id = cockpit.source, line.id
    question = f"Let {line.label} follow its ref again?"
    confirm(cockpit, question, lambda: source.sync_effect(id), lambda: source.unpin(id))


def _roll_back(cockpit: CockpitProgram, line: FleetLine) -> None:
    cockpit.background(lambda: _find_previous(cockpit, line))


def _find_previous(cockpit: CockpitProgram, line: FleetLine) -> None:
    source = cockpit.source
    try:
        revision = source.previous(line.id)
        if revision is None:
            raise NotFound(f"{line.label} has no earlier revision")
    except TowlineError as error:
        cockpit.report(error)
        return
    id, commit = revision["id"], f"{short(revision['sha'])} {revision['subject']}"
    question = f"Roll {line.label} back to {escape_controls(commit)}?"
    digest = revision["digest"]
    cockpit.post(
        confirm,
        *(cockpit, question, lambda: source.revision_effect(line.id, digest)),
        lambda: source.roll_back(line.id, id),
    )


_CHANGES: Mapping[str, Callable[[CockpitProgram, FleetLine], None]] = {
    "sync": _sync,
    "unpin": _unpin,
    "roll_back": _roll_back,
}


def confirm(
    cockpit: CockpitProgram, question: str, effect: Effect, change: Callable[[], None]
) -> None:
    """Asks a question, and after a yes carries out the change in the background."""

    def on_decided(confirmed: bool | None) -> None:
        if confirmed:
            cockpit.background(lambda: _carry_out(cockpit, change))

    cockpit.push_screen(ChangeConfirmation(cockpit, question, effect), on_decided)


def _carry_out(cockpit: CockpitProgram, change: Callable[[], None]) -> None:
    try:
        change()
    except TowlineError as error:
        cockpit.report(error)
    else:
        cockpit.post(cockpit.notify, "Done.")
