"""Menu of the actions on an object, and the question before each."""

from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from towline.cli.cockpit.changes import confirm
from towline.cli.cockpit.program import CockpitProgram
from towline.cli.cockpit.prompt import TextPrompt
from towline.cli.cockpit.source import ObjectState, OfferedAction
from towline.cli.cockpit.workload_actions import notes_of
from towline.cli.services.object_names import ObjectName, title_of
from towline.cli.shell.output import escape_controls

_MAX_DIGITS = 6


class ActionMenu(ModalScreen[OfferedAction]):
    """Lists the actions on an object; those without a permission are disabled, with the reason."""

    DEFAULT_CSS = """
    ActionMenu { align: center middle; }
    ActionMenu > Vertical { width: 90; height: auto; border: round $primary; padding: 1 2; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q", "dismiss", "Back")]

    def __init__(self, title: str, kind: str, offered: Sequence[OfferedAction]) -> None:
        super().__init__()
        self._title = title
        self._kind = kind
        self._offered = offered

    def compose(self) -> ComposeResult:
        with Vertical():
            yield Static(Text(self._title), classes="title")
            yield OptionList(*map(self._option, self._offered))

    def _option(self, offered: OfferedAction) -> Option:
        name = offered.action.name(self._kind)
        text = (
            f"{name}: {escape_controls(offered.denial_reason)}" if offered.denial_reason else name
        )
        return Option(Text(text), id=offered.action.id, disabled=bool(offered.denial_reason))

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._offered[event.option_index])


class ObjectActions:
    """The steps of one action: menu, values, question, and the change in the background."""

    def __init__(self, cockpit: CockpitProgram, handle: str, component: ObjectName) -> None:
        """`handle` is the cluster of the object."""
        self._cockpit = cockpit
        self._handle = handle
        self._component = component
        self._label = escape_controls(title_of(component))

    def open(self) -> None:
        """Reads the object and the permissions, then shows the menu."""
        self._cockpit.background(self._read)

    def _read(self) -> None:
        cockpit = self._cockpit
        state = cockpit.read_or_report(
            lambda: cockpit.source.object_state(self._handle, self._component)
        )
        if state is not None:
            cockpit.post(self._show_menu, state)

    def _show_menu(self, state: ObjectState) -> None:
        def on_chosen(offered: OfferedAction | None) -> None:
            if offered is not None:
                self._begin(state, offered)

        if not state.offered:
            message = f"{self._label} has no actions in its present state."
            self._cockpit.notify(message, severity="warning", markup=False)
            return
        title = f"{self._handle}: {self._label}"
        menu = ActionMenu(title, self._component["kind"], state.offered)
        self._cockpit.push_screen(menu, on_chosen)

    def _begin(self, state: ObjectState, offered: OfferedAction) -> None:
        def on_typed(replicas: str | None) -> None:
            if replicas is None:
                return
            if replicas.isascii() and replicas.isdecimal() and len(replicas) <= _MAX_DIGITS:
                self._confirm(state, offered, int(replicas))
            else:
                message = f"{replicas!r} is not a number of replicas."
                self._cockpit.notify(message, severity="warning", markup=False)

        if offered.action.id != "scale":
            self._confirm(state, offered)
            return
        present = state.live.get("spec", {}).get("replicas", 1)
        self._cockpit.push_screen(TextPrompt("Replicas", value=str(present)), on_typed)

    def _confirm(self, state: ObjectState, offered: OfferedAction, replicas: int = 0) -> None:
        action = offered.action
        replicas_text = f" to {replicas}" if action.id == "scale" else ""
        notes = " ".join(notes_of(action, state.live))
        question = f"{action.name(self._label)} in {self._handle}{replicas_text}?\n\n{notes}"
        source, handle = self._cockpit.source, self._handle
        confirm(
            *(self._cockpit, question),
            lambda: source.action_effect(handle, state, action, replicas),
            lambda: source.run_action(handle, state, action, replicas),
        )
