"""Changes, each after a confirmation."""

from collections.abc import Callable, Mapping
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from core.errors import NotFound, TowlineError
from towline.cli.cockpit.fleet import FleetLine
from towline.cli.cockpit.program import CockpitProgram
from towline.cli.shell.output import escape_controls, short


class ChangeConfirmation(ModalScreen[bool]):
    """Asks before a change; y confirms."""

    DEFAULT_CSS = """
    ChangeConfirmation { align: center middle; }
    ChangeConfirmation > Vertical { width: 70; height: auto; border: round $warning; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("y", "dismiss(True)", "Yes"),
        Binding("n,escape,q", "dismiss(False)", "No"),
    ]

    def __init__(self, question: str) -> None:
        super().__init__()
        self._question = question

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(f"{self._question}\n\ny: yes   n: no"))


def change_service(cockpit: CockpitProgram, action: str, line: FleetLine) -> None:
    """Changes a service after a confirmation, in the background.

    `action` is `sync`, `unpin` or `roll_back`.
    """
    _CHANGES[action](cockpit, line)


def _sync(cockpit: CockpitProgram, line: FleetLine) -> None:
    confirm(cockpit, f"Sync {line.label} now?", lambda: cockpit.source.sync(line.id))


def _unpin(cockpit: CockpitProgram, line: FleetLine) -> None:
    question = f"Let {line.label} follow its ref again?"
    confirm(cockpit, question, lambda: cockpit.source.unpin(line.id))


def _roll_back(cockpit: CockpitProgram, line: FleetLine) -> None:
    cockpit.background(lambda: _find_previous(cockpit, line))


def _find_previous(cockpit: CockpitProgram, line: FleetLine) -> None:
    try:
        revision = cockpit.source.previous(line.id)
        if revision is None:
            raise NotFound(f"{line.label} has no earlier revision")
    except TowlineError as error:
        cockpit.report(error)
        return
    id, commit = revision["id"], f"{short(revision['sha'])} {revision['subject']}"
    question = f"Roll {line.label} back to {escape_controls(commit)}?"
    cockpit.post(confirm, cockpit, question, lambda: cockpit.source.roll_back(line.id, id))


_CHANGES: Mapping[str, Callable[[CockpitProgram, FleetLine], None]] = {
    "sync": _sync,
    "unpin": _unpin,
    "roll_back": _roll_back,
}


def confirm(cockpit: CockpitProgram, question: str, change: Callable[[], None]) -> None:
    """Asks a question, and after a yes carries out the change in the background."""

    def decided(confirmed: bool | None) -> None:
        if confirmed:
            cockpit.background(lambda: _carry_out(cockpit, change))

    cockpit.push_screen(ChangeConfirmation(question), decided)


def _carry_out(cockpit: CockpitProgram, change: Callable[[], None]) -> None:
    try:
        change()
    except TowlineError as error:
        cockpit.report(error)
    else:
        cockpit.post(cockpit.notify, "Done.")
