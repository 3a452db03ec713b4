"""The cockpit: the list of services, and everything that leads on from it."""

import time
from collections.abc import Sequence
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Input, Static

from core.errors import TowlineError
from towline.cli.cockpit.changes import change_service
from towline.cli.cockpit.fleet import FleetIndex, FleetLine, FleetLines
from towline.cli.cockpit.line_list import LineList, ListColumn
from towline.cli.cockpit.program import CockpitProgram, CockpitScreen
from towline.cli.cockpit.screens import ServiceScreen
from towline.cli.cockpit.source import FleetSource
from towline.cli.services.generated import ChangedService, ServiceRow
from towline.cli.shell.output import count, state_colour

_RETRY_SECONDS = 3.0
_BATCH = 1_000
_NEAR = 1_000
"""The cursor follows its service over this many lines; further away, it stays at its place."""
_COLUMNS = (
    ListColumn("SERVICE", 0),
    ListColumn("STATE", 20),
    ListColumn("COMMIT", 10),
    ListColumn("PROBLEM", 0),
)


class FleetScreen(CockpitScreen):
    """All services, filtered by a text or by their problems."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("slash", "prompt('/')", "Filter"),
        Binding("colon", "prompt(':')", "Jump"),
        Binding("p", "problems", "Problems"),
        Binding("s", "change('sync')", "Sync"),
        Binding("b", "change('roll_back')", "Roll back"),
        Binding("escape", "clear", "All", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fleet = FleetIndex()
        self._text = text
        self._only_problems = False
        self._sign = "/"
        self.is_loading = True
        self.live = True
        self._list: LineList[FleetLine] = LineList(_COLUMNS, _cells, _colour)

    def compose(self) -> ComposeResult:
        yield Static(id="summary", classes="title")
        yield self._list
        yield Input(id="prompt")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(Input).display = False
        self._list.focus()
        self.update()

    def update(self, *, loading: bool | None = None, live: bool | None = None) -> None:
        """Shows the services that match, after a change of them or of the filter."""
        self.is_loading = self.is_loading if loading is None else loading
        self.live = self.live if live is None else live
        lines = self.fleet.matching(self._text, problems=self._only_problems)
        kept = self._list.selected
        self._list.show_items(lines)
        if kept is not None:
            self._keep_cursor_at(kept, lines)
        parts = [f"{len(lines):,} of {count(len(self.fleet), 'service')}"]
        parts += [f"filter: {self._text}"] if self._text else []
        parts += ["only problems"] if self._only_problems else []
        parts += ["reading …"] if self.is_loading else []
        parts += [] if self.live else ["not live: connecting again"]
        self.query_one("#summary", Static).update(Text("  ·  ".join(parts)))

    def _keep_cursor_at(self, line: FleetLine, lines: FleetLines) -> None:
        """Keeps the cursor on its service when services before it come or go."""
        cursor = self._list.cursor
        for place in range(max(0, cursor - _NEAR), min(len(lines), cursor + _NEAR)):
            if lines[place].id == line.id:
                self._list.cursor = place
                return

    def on_line_list_chosen(self) -> None:
        if (line := self._list.selected) is not None:
            self.app.push_screen(ServiceScreen(line))

    def action_prompt(self, sign: str) -> None:
        prompt = self.query_one(Input)
        prompt.placeholder = "filter" if sign == "/" else "CLUSTER/NAME of a service"
        self._sign = sign
        prompt.value = self._text if sign == "/" else ""
        prompt.display = True
        prompt.focus()

    def on_input_changed(self, event: Input.Changed) -> None:
        if event.input.display and self._sign == "/":
            self._text = event.value
            self.update()

    def on_input_submitted(self, event: Input.Submitted) -> None:
        if self._sign == ":":
            self._jump(event.value.strip())
        self._close_prompt()

    def _jump(self, name: str) -> None:
        lines = self.fleet.matching(name)
        found = next((line for line in lines if line.label == name), None)
        if found is None and len(lines) == 1:
            found = lines[0]
        if found is None:
            self.notify(f"{count(len(lines), 'service')} match {name!r}", severity="warning")
        else:
            self.app.push_screen(ServiceScreen(found))

    def _close_prompt(self) -> None:
        self.query_one(Input).display = False
        self._list.focus()

    def action_clear(self) -> None:
        if not self.query_one(Input).display:
            self._text, self._only_problems = "", False
        self._close_prompt()
        self.update()

    def action_problems(self) -> None:
        self._only_problems = not self._only_problems
        self.update()

    def action_change(self, action: str) -> None:
        if (line := self._list.selected) is not None:
            change_service(self.cockpit, action, line)


class Cockpit(CockpitProgram):
    """The program of `towline ui`."""

    TITLE = "Towline"
    ENABLE_COMMAND_PALETTE = False
    CSS = ".title { text-style: bold; padding: 0 1; } #state { padding: 0 1; height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "show_help_panel", "Keys"),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(self, source: FleetSource, text: str = "") -> None:
        """`text` is the first filter."""
        super().__init__(source)
        self._fleet_screen = FleetScreen(text)
        # Changes that came while the services were read: what was read can be older.
        self._early: list[ChangedService] = []
        self._since: str | None = None

    def on_mount(self) -> None:
        self.push_screen(self._fleet_screen)
        self.background(self._follow)

    def _follow(self) -> None:
        """Reads all services, and applies changes until the end."""
        while True:
            try:
                changes = self.source.changes(self._since)
                next(changes)
                self.post(self._fleet_screen.update, live=True)
                # Without a change there is no time from which to go on.
                if self._since is None:
                    self.background(self._read)
                for found in changes:
                    self.post(self._take, found)
            except TowlineError as error:
                if self._fleet_screen.live:
                    self.report(error)
                self.post(self._fleet_screen.update, live=False)
            time.sleep(_RETRY_SECONDS)

    def _read(self) -> None:
        """Reads all services, and shows them as they come."""
        fleet = FleetIndex()
        batch: list[ServiceRow] = []
        try:
            for service in self.source.services():
                batch.append(service)
                if len(batch) == _BATCH:
                    self.post(self._add, fleet, batch)
                    batch = []
        except TowlineError as error:
            self.report(error)
            return
        self.post(self._add, fleet, batch, complete=True)

    def _add(
        self, fleet: FleetIndex, services: list[ServiceRow], *, complete: bool = False
    ) -> None:
        for service in services:
            fleet.put(service)
        screen = self._fleet_screen
        if complete or len(screen.fleet) <= len(fleet):
            screen.fleet = fleet
        if complete:
            early, self._early = self._early, []
            self._apply(early)
        screen.update(loading=not complete)

    def _take(self, changes: Sequence[ChangedService]) -> None:
        if self._fleet_screen.is_loading:
            self._early += changes
        self._apply(changes)
        if changes:
            self._since = max(change["at"] for change in changes)
            self._fleet_screen.update()

    def _apply(self, changes: Sequence[ChangedService]) -> None:
        for change in changes:
            if change["payload"] is None:
                self._fleet_screen.fleet.remove(change["id"])
            else:
                self._fleet_screen.fleet.put(change["payload"])


def _cells(line: FleetLine) -> tuple[str, ...]:
    return (line.label, line.state, line.commit, line.problem)


def _colour(text: str) -> str | None:
    return state_colour(text.split(" ")[0])
