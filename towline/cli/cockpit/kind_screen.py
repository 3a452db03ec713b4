"""Objects of one kind in a cluster, whether a service owns them or not."""

from collections.abc import Sequence

from rich.text import Text
from textual.app import ComposeResult
from textual.widgets import Footer, Static

from towline.cli.cockpit.filtered_list import FilteredList
from towline.cli.cockpit.jump import KindTarget
from towline.cli.cockpit.line_list import LineList, ListColumn
from towline.cli.cockpit.object_screen import ObjectScreen
from towline.cli.cockpit.source import ObjectTable, TableRow
from towline.cli.services.object_names import ObjectName
from towline.cli.shell.output import count, escape_controls
from towline.cli.shell.states import shape_colour

_NAMESPACE_WIDTH = 20
_MAX_WIDTH = 30
_EMPTY = ObjectTable((), (), 0)


class KindScreen(ObjectScreen):
    """A table as `kubectl get` prints it, with a filter."""

    def __init__(self, target: KindTarget) -> None:
        super().__init__(target.cluster)
        self._target = target
        self._table = _EMPTY
        self._lines: LineList[TableRow] = LineList((), _cells, shape_colour)
        self._filtered = FilteredList(self._lines)

    @property
    def selected(self) -> ObjectName | None:
        row = self._lines.selected
        return row.name if row else None

    def compose(self) -> ComposeResult:
        yield Static(id="summary", classes="title")
        yield self._filtered
        yield Footer()

    def on_mount(self) -> None:
        self._show_summary("reading …")

    def read(self) -> None:
        target, cockpit = self._target, self.cockpit
        source = cockpit.source
        table = cockpit.read_or_report(
            lambda: source.objects(target.cluster, target.kind, target.namespace)
        )
        cockpit.post(self._show_table, table)

    def _show_table(self, table: ObjectTable | None) -> None:
        if not self.is_attached:
            return
        if table is None:
            self._show_summary("not read")
            return
        rows = [row._replace(cells=tuple(map(escape_controls, row.cells))) for row in table.rows]
        self._table = table._replace(rows=rows)
        self._lines.columns = _columns(self._table)
        self._show_matching()

    def _show_matching(self) -> None:
        text = self._filtered.text
        words = text.casefold().split()
        rows = [row for row in self._table.rows if _matches(row, words)]
        self._lines.show_items(rows)
        parts = [f"{len(rows):,} of {count(len(self._table.rows), 'object')}"]
        parts += [f"{self._table.left_out:,} more: name a namespace"] * bool(self._table.left_out)
        parts += [f"filter: {text}"] if text else []
        self._show_summary(*parts)

    def _show_summary(self, *parts: str) -> None:
        location = f" in {self._target.namespace}" if self._target.namespace else ""
        title = f"{self._target.cluster}: {self._target.kind}{location}"
        text = escape_controls("  ·  ".join((title, *parts)))
        self.query_one("#summary", Static).update(Text(text))

    def on_filtered_list_filtered(self) -> None:
        self._show_matching()


def _matches(row: TableRow, words: Sequence[str]) -> bool:
    text = " ".join(_cells(row)).casefold()
    return all(word in text for word in words)


def _cells(row: TableRow) -> tuple[str, ...]:
    return (row.name["namespace"] or "", *row.cells)


def _columns(table: ObjectTable) -> list[ListColumn]:
    """The first column, the name, gets the rest of the line."""
    widths = [
        min(_MAX_WIDTH, max([len(title), *(len(row.cells[index]) for row in table.rows)]))
        for index, title in enumerate(table.columns)
    ]
    titles = [escape_controls(title.upper()) for title in table.columns]
    columns = [ListColumn(title, width) for title, width in zip(titles, widths, strict=True)]
    return [ListColumn("NAMESPACE", _NAMESPACE_WIDTH), columns[0]._replace(width=0), *columns[1:]]
