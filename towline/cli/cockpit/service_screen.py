"""A service in the cockpit: its state and its objects."""

from typing import ClassVar

from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.widgets import Footer, Static

from towline.cli.cockpit.changes import change_service
from towline.cli.cockpit.fleet import FleetLine
from towline.cli.cockpit.line_list import LineList, ListColumn
from towline.cli.cockpit.object_screen import ObjectScreen
from towline.cli.cockpit.text_screen import TextScreen
from towline.cli.services.generated import ServiceDetails, ServiceDetailsComponents
from towline.cli.services.object_names import ObjectName
from towline.cli.services.reasons import by_urgency, first_problem, status_text
from towline.cli.shell.output import age, escape_controls, short
from towline.cli.shell.states import OBJECT_TONES, SERVICE_TONES, shape_colour, with_shape

_OBJECT_COLUMNS = (
    ListColumn("KIND", 22),
    ListColumn("NAMESPACE", 20),
    ListColumn("NAME", 0),
    ListColumn("STATE", 12),
    ListColumn("SYNCED", 7),
    ListColumn("MESSAGE", 0),
)


class ServiceScreen(ObjectScreen):
    """A service: its state, and its objects, the most urgent first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "events", "Events"),
        Binding("s", "change('sync')", "Sync"),
        Binding("b", "change('roll_back')", "Roll back"),
        Binding("u", "change('unpin')", "Unpin"),
        Binding("o", "open_page", "Console"),
    ]

    def __init__(self, line: FleetLine) -> None:
        super().__init__(line.cluster)
        self._line = line
        self._objects: LineList[ServiceDetailsComponents] = LineList(
            _OBJECT_COLUMNS, _cells, shape_colour
        )

    @property
    def selected(self) -> ObjectName | None:
        return self._objects.selected

    def compose(self) -> ComposeResult:
        yield Static(Text(self._line.label), classes="title")
        yield Static(id="state")
        yield self._objects
        yield Footer()

    def on_mount(self) -> None:
        self._objects.focus()

    def read(self) -> None:
        cockpit = self.cockpit
        service = cockpit.read_or_report(lambda: cockpit.source.service(self._line.id))
        cockpit.post(self._show, service)

    def _show(self, service: ServiceDetails | None) -> None:
        if service is None or not self.is_attached:
            return
        state = with_shape(status_text(service), SERVICE_TONES)
        text = Text.assemble(
            (state, shape_colour(state) or ""),
            f"  commit {short(service['sha'])}  {escape_controls(first_problem(service))}",
        )
        self.query_one("#state", Static).update(text)
        self._objects.show_items(by_urgency(service["components"]))

    def action_events(self) -> None:
        title = f"{self._line.label}: events"
        self.app.push_screen(TextScreen(title, self._events, cluster=self._line.cluster))

    def _events(self) -> list[str]:
        rows = [
            f"{age(event['lastAt']):>9}  {event['type']:<8} {event['reason']:<22} "
            f"{event['kind']}/{event['name']}: {event['message']}"
            for event in self.cockpit.source.events(self._line.id)
        ]
        return rows or ["no events"]

    def action_change(self, action: str) -> None:
        change_service(self.cockpit, action, self._line)

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
