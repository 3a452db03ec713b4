"""A list of any length: only the lines on the screen are built."""

from collections.abc import Callable, Sequence
from typing import ClassVar, Generic, NamedTuple, Protocol, TypeVar

from rich.segment import Segment
from rich.style import Style
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

Item = TypeVar("Item")
Shown = TypeVar("Shown", covariant=True)
_GAP = "  "


class Items(Protocol[Shown]):
    """Items by their index, such as a list."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: int, /) -> Shown: ...


class ListColumn(NamedTuple):
    """A column: its title, and its width; 0 shares the rest of the line."""

    title: str
    width: int


class LineList(ScrollView, Generic[Item], can_focus=True):
    """Lines with titles above them, and a cursor. Enter posts `Chosen`."""

    DEFAULT_CSS = "LineList { height: 1fr; }"
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown,space", "page(1)", "Page down", show=False),
        Binding("home,g", "move(-1000000000)", "First", show=False),
        Binding("end,G", "move(1000000000)", "Last", show=False),
        Binding("enter", "choose", "Open"),
    ]
    cursor = reactive(0)

    class Chosen(Message):
        """Enter was pressed on an item."""

    def __init__(
        self,
        columns: Sequence[ListColumn],
        cells: Callable[[Item], Sequence[str]],
        colour: Callable[[str], str | None],
    ) -> None:
        """`cells` are the texts of an item; `colour` is the colour of a text, if it has one."""
        super().__init__()
        self.columns = columns
        """The columns; they can change together with the items."""
        self._cells = cells
        self._colour = colour
        self.items: Items[Item] = []
        """The shown items; `show_items` replaces them."""

    @property
    def selected(self) -> Item | None:
        """The item at the cursor."""
        return self.items[self.cursor] if self.cursor < len(self.items) else None

    def show_items(self, items: Items[Item]) -> None:
        """Replaces all items; the cursor stays at its place."""
        self.items = items
        self.virtual_size = Size(self.size.width, len(items) + 1)
        self.cursor = min(self.cursor, max(0, len(items) - 1))
        self.refresh()

    def watch_cursor(self) -> None:
        # One line more above, because the titles cover it.
        self.scroll_to_region(Region(0, self.cursor, 1, 2), animate=False)
        self.refresh()

    def action_move(self, by: int) -> None:
        self.cursor = max(0, min(len(self.items) - 1, self.cursor + by))

    def action_page(self, by: int) -> None:
        self.action_move(by * max(1, self.size.height - 2))

    def action_choose(self) -> None:
        if self.selected is not None:
            self.post_message(self.Chosen())

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if y == 0:
            titles = self._line([column.title for column in self.columns], width)
            return _strip([Segment(text, Style(bold=True)) for text in titles], width)
        index = self.scroll_offset.y + y - 1
        if index >= len(self.items):
            return Strip.blank(width)
        cells = self._cells(self.items[index])
        style = Style(reverse=index == self.cursor and self.has_focus)
        segments = [
            Segment(text, style + Style(color=self._colour(cell)))
            for text, cell in zip(self._line(cells, width), cells, strict=True)
        ]
        return _strip(segments, width, style)

    def _line(self, cells: Sequence[str], width: int) -> list[str]:
        """Cells, cut or filled up to the widths of their columns."""
        fixed = sum(column.width + len(_GAP) for column in self.columns)
        flexible = sum(not column.width for column in self.columns)
        flexible_width = max(8, (width - fixed) // flexible) if flexible else 0
        widths = [column.width or flexible_width for column in self.columns]
        return [_fit(cell, size) + _GAP for cell, size in zip(cells, widths, strict=True)]


def _strip(segments: list[Segment], width: int, style: Style | None = None) -> Strip:
    return Strip(segments).adjust_cell_length(width, style)


def _fit(text: str, width: int) -> str:
    return text.ljust(width) if len(text) <= width else text[: width - 1] + "…"
