"""The cockpit: the list of services, and everything that leads on from it."""

import time
from collections.abc import Sequence
from itertools import islice
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from core.errors import Invalid, TowlineError
from towline.cli.cockpit.changes import change_service
from towline.cli.cockpit.filtered_list import FilteredList
from towline.cli.cockpit.fleet import FleetIndex, FleetLine, FleetLines
from towline.cli.cockpit.jump import parse_kind_target
from towline.cli.cockpit.kind_screen import KindScreen
from towline.cli.cockpit.line_list import LineList, ListColumn
from towline.cli.cockpit.program import CockpitProgram, CockpitScreen
from towline.cli.cockpit.service_screen import ServiceScreen
from towline.cli.cockpit.source import FleetSource
from towline.cli.services.generated import ChangedService, ServiceRow
from towline.cli.shell.output import count
from towline.cli.shell.states import SERVICE_TONES, shape_colour, with_shape

_RETRY_SECONDS = 3.0
_BATCH = 1_000
_NEAR = 1_000
"""The cursor follows its service over this many lines; further away, it stays at its place."""
_COLUMNS = (
    ListColumn("SERVICE", 0),
    ListColumn("STATE", 22),
    ListColumn("COMMIT", 10),
    ListColumn("PROBLEM", 0),
)


class FleetScreen(CockpitScreen):
    """All services, filtered by a text or by their problems."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("p", "problems", "Problems"),
        Binding("s", "change('sync')", "Sync"),
        Binding("b", "change('roll_back')", "Roll back"),
        Binding("escape", "clear", "All", show=False),
        Binding("q", "app.quit", "Quit"),
    ]

    def __init__(self, text: str) -> None:
        super().__init__()
        self.fleet = FleetIndex()
        self._only_problems = False
        self._is_loading = True
        self.live = True
        self._list: LineList[FleetLine] = LineList(_COLUMNS, _cells, shape_colour)
        self._filtered = FilteredList(self._list, text)

    def compose(self) -> ComposeResult:
        yield Static(id="summary", classes="title")
        yield self._filtered
        yield Footer()

    def on_mount(self) -> None:
        self.update()

    def update(self, *, loading: bool | None = None, live: bool | None = None) -> None:
        """Shows the services that match, after a change of them or of the filter."""
        self._is_loading = self._is_loading if loading is None else loading
        self.live = self.live if live is None else live
        text = self._filtered.text
        lines = self.fleet.matching(text, problems=self._only_problems)
        selected = self._list.selected
        self._list.show_items(lines)
        if selected is not None:
            self._keep_cursor_at(selected, lines)
        parts = [f"{len(lines):,} of {count(len(self.fleet), 'service')}"]
        parts += [f"filter: {text}"] if text else []
        parts += ["only problems"] if self._only_problems else []
        parts += ["reading …"] if self._is_loading else []
        parts += [] if self.live else ["not live: connecting again"]
        self.query_one("#summary", Static).update(Text("  ·  ".join(parts)))

    def _keep_cursor_at(self, line: FleetLine, lines: FleetLines) -> None:
        """Keeps the cursor on its service when services before it come or go."""
        cursor = self._list.cursor
        for index in range(max(0, cursor - _NEAR), min(len(lines), cursor + _NEAR)):
            if lines[index].id == line.id:
                self._list.cursor = index
                return

    def on_line_list_chosen(self) -> None:
        if (line := self._list.selected) is not None:
            self.app.push_screen(ServiceScreen(line))

    @property
    def cluster(self) -> str | None:
        line = self._list.selected
        return line.cluster if line else None

    def on_filtered_list_filtered(self) -> None:
        self.update()

    def on_filtered_list_cleared(self) -> None:
        self.action_clear()

    def action_clear(self) -> None:
        self._only_problems = False
        self.update()

    def action_problems(self) -> None:
        self._only_problems = not self._only_problems
        self.update()

    def action_change(self, action: str) -> None:
        if (line := self._list.selected) is not None:
            change_service(self.cockpit, action, line)


class FleetReading:
    """One reading of all services, and the changes that came meanwhile."""

    def __init__(self) -> None:
        self.fleet = FleetIndex()
        self.early: list[ChangedService] = []


class Cockpit(CockpitProgram):
    """The program of `towline ui`."""

    TITLE = "Towline"
    ENABLE_COMMAND_PALETTE = False
    CSS = ".title { text-style: bold; padding: 0 1; } #state { padding: 0 1; height: auto; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("question_mark", "show_help_panel", "Keys"),
        Binding("ctrl+c", "quit", "Quit", show=False),
    ]

    def __init__(
        self, source: FleetSource, text: str = "", *, retry_seconds: float = _RETRY_SECONDS
    ) -> None:
        """`text` is the first filter."""
        super().__init__(source)
        self._retry_seconds = retry_seconds
        self._fleet_screen = FleetScreen(text)
        self._since: str | None = None
        self._reading: FleetReading | None = None

    def on_mount(self) -> None:
        self.push_screen(self._fleet_screen)
        self.background(self._follow)

    def jump(self, text: str, cluster: str | None) -> None:
        if "/" in text:
            self._open_service(text)
            return
        try:
            self.push_screen(KindScreen(parse_kind_target(text, cluster)))
        except Invalid as error:
            self.notify(error.message, severity="warning", markup=False)

    def _open_service(self, name: str) -> None:
        lines = self._fleet_screen.fleet.matching(name)
        match = next((line for line in lines if line.label == name), None)
        if match is None and len(lines) == 1:
            match = lines[0]
        if match is None:
            message = f"{count(len(lines), 'service')} match {name!r}"
            self.notify(message, severity="warning", markup=False)
        else:
            self.push_screen(ServiceScreen(match))

    def _follow(self) -> None:
        """Follows changes until the end."""
        while True:
            try:
                self._follow_once()
            except TowlineError as error:
                if self._fleet_screen.live:
                    self.report(error)
                self.post(self._fleet_screen.update, live=False)
            time.sleep(self._retry_seconds)

    def _follow_once(self) -> None:
        """Follows changes until the connection ends, from the last one if there was one."""
        changes = self.source.changes(self._since)
        next(changes)
        # Kept only once the control plane has sent something: it may refuse to go that far back.
        since, self._since = self._since, None
        self.post(self._fleet_screen.update, live=True)
        if since is None:
            self.post(self._begin_reading)
        for batch in changes:
            self._since = self._since or since
            self.post(self._on_changes, batch)

    def _begin_reading(self) -> None:
        reading = self._reading = FleetReading()
        self._fleet_screen.update(loading=True)
        self.background(lambda: self._read(reading))

    def _read(self, reading: FleetReading) -> None:
        """Reads all services, and shows them as they come; again after an error."""
        while reading is self._reading:
            try:
                services = self.source.services()
                while batch := list(islice(services, _BATCH)):
                    self.post(self._add_services, reading, batch)
                self.post(self._complete, reading)
                return
            except TowlineError as error:
                self.report(error)
            time.sleep(self._retry_seconds)

    def _add_services(self, reading: FleetReading, services: Sequence[ServiceRow]) -> None:
        for service in services:
            reading.fleet.put(service)
        screen = self._fleet_screen
        if reading is self._reading and len(screen.fleet) <= len(reading.fleet):
            screen.fleet = reading.fleet
            screen.update()

    def _complete(self, reading: FleetReading) -> None:
        # A later connection needs a reading of its own.
        if reading is self._reading:
            self._reading = None
            self._fleet_screen.fleet = reading.fleet
            # What was read can be older than a change that came meanwhile.
            self._apply(reading.early)
            self._fleet_screen.update(loading=False)

    def _on_changes(self, changes: Sequence[ChangedService]) -> None:
        if self._reading:
            self._reading.early += changes
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
    return (line.label, with_shape(line.state, SERVICE_TONES), line.commit, line.problem)
