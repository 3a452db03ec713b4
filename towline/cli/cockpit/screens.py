"""Screens of the cockpit: a service with its objects, texts and logs."""

from collections.abc import Callable, Iterable
from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult, SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.widgets import Footer, RichLog, Static

from core.errors import TowlineError
from towline.cli.cockpit.changes import change_service
from towline.cli.cockpit.fleet import FleetLine
from towline.cli.cockpit.line_list import LineList, ListColumn
from towline.cli.cockpit.object_actions import ObjectActions
from towline.cli.cockpit.program import CockpitScreen
from towline.cli.cockpit.workload_actions import actions_for
from towline.cli.services.generated import ServiceDetails, ServiceDetailsComponents
from towline.cli.services.reasons import by_urgency, first_problem, status_text
from towline.cli.shell.output import age, escape_controls, short
from towline.cli.shell.states import OBJECT_TONES, SERVICE_TONES, shape_colour, with_shape

_REFRESH_SECONDS = 5.0
# The best shell of an image.
_SHELL = ("sh", "-c", "command -v bash >/dev/null && exec bash || exec sh")
_MAX_LINES = 5_000
_BACK = Binding("escape,q", "app.pop_screen", "Back")
_OBJECT_COLUMNS = (
    ListColumn("KIND", 22),
    ListColumn("NAMESPACE", 20),
    ListColumn("NAME", 0),
    ListColumn("STATE", 12),
    ListColumn("SYNCED", 7),
    ListColumn("MESSAGE", 0),
)


class TextScreen(CockpitScreen):
    """A text that is read in the background; `follows`: until it ends, newest line in view."""

    BINDINGS: ClassVar[list[BindingType]] = [_BACK]

    def __init__(
        self, title: str, read: Callable[[], Iterable[str]], *, follows: bool = False
    ) -> None:
        """`read` yields parts of the text, each on a line of its own."""
        super().__init__()
        self._title = title
        self._read = read
        self._follows = follows

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


class ServiceScreen(CockpitScreen):
    """A service: its state, and its objects, the most urgent first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        _BACK,
        Binding("l", "log", "Log"),
        Binding("h", "shell", "Shell"),
        Binding("d", "edit", "Edit"),
        Binding("e", "events", "Events"),
        Binding("s", "change('sync')", "Sync"),
        Binding("b", "change('roll_back')", "Roll back"),
        Binding("u", "change('unpin')", "Unpin"),
        Binding("x", "object_actions", "Actions"),
        Binding("o", "open_page", "Console"),
    ]

    def __init__(self, line: FleetLine) -> None:
        super().__init__()
        self._line = line
        self._is_reading = False
        self._objects: LineList[ServiceDetailsComponents] = LineList(
            _OBJECT_COLUMNS, _cells, shape_colour
        )

    def compose(self) -> ComposeResult:
        yield Static(Text(self._line.label), classes="title")
        yield Static(id="state")
        yield self._objects
        yield Footer()

    def on_mount(self) -> None:
        self._objects.focus()
        self.refresh_service()
        self.set_interval(_REFRESH_SECONDS, self.refresh_service)

    def refresh_service(self) -> None:
        """Reads the service again, unless that is under way."""
        if not self._is_reading:
            self._is_reading = True
            self.cockpit.background(self._refresh)

    def _refresh(self) -> None:
        found = self.cockpit.tried(lambda: self.cockpit.source.service(self._line.id))
        self.cockpit.post(self._show, found)

    def _show(self, service: ServiceDetails | None) -> None:
        self._is_reading = False
        if service is None or not self.is_attached:
            return
        state = with_shape(status_text(service), SERVICE_TONES)
        text = Text.assemble(
            (state, shape_colour(state) or ""),
            f"  commit {short(service['sha'])}  {escape_controls(first_problem(service))}",
        )
        self.query_one("#state", Static).update(text)
        self._objects.show_items(by_urgency(service["components"]))

    def on_line_list_chosen(self) -> None:
        if (component := self._objects.selected) is not None:
            read = self.cockpit.source.manifest
            self.app.push_screen(
                TextScreen(_title(component), lambda: [read(self._line.cluster, component)])
            )

    def action_log(self) -> None:
        if (component := self._pod("see its log")) is None:
            return
        namespace, name = component["namespace"] or "", component["name"]
        read = self.cockpit.source.log
        title = f"{self._line.cluster}: {namespace}/{name}"
        self.app.push_screen(
            TextScreen(title, lambda: read(self._line.cluster, namespace, name), follows=True)
        )

    def action_shell(self) -> None:
        if (component := self._pod("open a shell in it")) is not None:
            self._kubectl(component, "exec", "-it", component["name"], "--", *_SHELL)

    def action_edit(self) -> None:
        if (component := self._objects.selected) is not None:
            kind = ".".join(filter(None, (component["kind"], component["group"])))
            self._kubectl(component, "edit", kind, component["name"])

    def _pod(self, purpose: str) -> ServiceDetailsComponents | None:
        """The selected pod; None, with a hint, without one."""
        component = self._objects.selected
        if component is None or (component["kind"], component["group"]) != ("Pod", ""):
            self.notify(f"Select a pod to {purpose}.", severity="warning")
            return None
        return component

    def _kubectl(self, component: ServiceDetailsComponents, *words: str) -> None:
        """Gives the terminal to kubectl until it ends."""
        place = ["-n", component["namespace"]] if component["namespace"] else []
        try:
            with self.app.suspend():
                code = self.cockpit.source.kubectl(self._line.cluster, [*place, *words])
                if code:
                    input("Press Enter to return. ")
        except SuspendNotSupported:
            self.notify("This terminal cannot be given to kubectl.", severity="warning")
        except TowlineError as error:
            self.notify(escape_controls(error.message), severity="error", markup=False)
        self.refresh_service()

    def action_events(self) -> None:
        self.app.push_screen(TextScreen(f"{self._line.label}: events", self._events))

    def _events(self) -> list[str]:
        rows = [
            f"{age(event['lastAt']):>9}  {event['type']:<8} {event['reason']:<22} "
            f"{event['kind']}/{event['name']}: {event['message']}"
            for event in self.cockpit.source.events(self._line.id)
        ]
        return rows or ["no events"]

    def action_change(self, action: str) -> None:
        change_service(self.cockpit, action, self._line)

    def action_object_actions(self) -> None:
        component = self._objects.selected
        if component is None or not actions_for(component):
            kind = component["kind"] if component else "nothing"
            self.notify(f"No actions for {kind}.", severity="warning", markup=False)
            return
        ObjectActions(self.cockpit, self._line.cluster, component).open()

    def action_open_page(self) -> None:
        self.app.open_url(self.cockpit.source.page(self._line.id))


def _cells(component: ServiceDetailsComponents) -> tuple[str, ...]:
    texts = (
        component["kind"],
        component["namespace"] or "",
        component["name"],
        with_shape(component["state"] or "UNKNOWN", OBJECT_TONES),
        "yes" if component["synced"] else "no",
        " ".join((component["message"] or "").split()),
    )
    return tuple(map(escape_controls, texts))


def _title(component: ServiceDetailsComponents) -> str:
    place = filter(None, (component["namespace"], component["name"]))
    return f"{component['kind']} {'/'.join(place)}"
