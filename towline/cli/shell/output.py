"""Output of commands: tables for people; JSON, YAML and names for programs."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any, Generic, TypeVar, cast

import typer

from core.runtime.now import utc_now
from towline.cli.lazy_import import load
from towline.cli.shell.formats import CUSTOM_COLUMNS, JSONPATH, Format
from towline.cli.shell.states import state_colour

Row = Mapping[str, object]
R = TypeVar("R", bound=Row)
RowOfColumn = TypeVar("RowOfColumn", bound=Row, contravariant=True)
MAX_CELL_WIDTH = 60
_TEMPLATES = "towline.cli.shell.templates"
_CLOCK_SKEW_SECONDS = 5

# C0 and C1 controls except tab and line feed, and bidirectional controls: names, URLs and messages
# are untrusted, and a terminal would interpret them.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)")
_SHOWN_ROWS: ContextVar[int] = ContextVar("shown_rows", default=0)


@dataclass(frozen=True, slots=True)
class Column(Generic[RowOfColumn]):
    """A column of a table: its title, and its value for a row.

    `path`: keys of the value in a row, if the column shows one value. `wide`: only `-o wide` shows
    the column.
    """

    title: str
    cell: Callable[[RowOfColumn], object]
    path: tuple[str, ...] = ()
    wide: bool = False


def field(title: str, *path: str, wide: bool = False) -> Column[Row]:
    """Column with the value at a path of keys (default: the title in lower case)."""
    keys = path or (title.lower(),)
    return Column(title, lambda row: _value_at(row, keys), keys, wide)


def age_column(title: str, *path: str, missing: str = "never") -> Column[Row]:
    """Column with the age of the time at a path of keys. `missing`: text without a time."""
    return Column(title, lambda row: _age_at(row, path) or missing, path)


def bytes_column(title: str, key: str) -> Column[Row]:
    """Column with a number of bytes."""
    return Column(title, lambda row: _format_bytes(row.get(key)), (key,))


def show(
    rows: Iterable[R] | R,
    columns: Sequence[Column[R]],
    form: Format,
    name: str | Callable[[R], object],
) -> None:
    """Prints rows, or one row, in a format; `name` is what `-o name` prints: a key, or more."""
    is_one = isinstance(rows, Mapping)
    many = cast("list[R]", [rows] if is_one else list(rows))
    values = rows if is_one else many
    _SHOWN_ROWS.set(shown_rows() + len(many))
    if form == Format.JSON:
        print(escape_controls(json.dumps(values, indent=2, ensure_ascii=False)))
    elif form == Format.YAML:
        print(_yaml(values), end="")
    elif form == Format.NAME:
        names = [name(row) if callable(name) else row[name] for row in many]
        print(*(escape_controls(str(name)) for name in names), sep="\n", end="\n" if many else "")
    elif form.kind == JSONPATH:
        items = values if is_one else {"items": many}
        filled = escape_controls(load(_TEMPLATES).fill(form.template, items))
        print(filled, end="" if filled.endswith("\n") else "\n")
    elif form.kind == CUSTOM_COLUMNS:
        print(*table(many, _template_columns(form.template), wide=True), sep="\n")
    elif many:
        wide = form == Format.WIDE
        has_id = wide and "id" in many[0] and all(column.title != "ID" for column in columns)
        ids: list[Column[Any]] = [field("ID")] if has_id else []
        print(*table(many, [*columns, *ids], wide=wide), sep="\n")
    else:
        say("nothing found")


def shown_rows() -> int:
    """Returns the number of rows that `show` has printed so far."""
    return _SHOWN_ROWS.get()


def _template_columns(template: str) -> list[Column[Any]]:
    module = load(_TEMPLATES)
    return [Column(title, partial(module.cell, path)) for title, path in module.columns(template)]


def table(rows: Sequence[R], columns: Sequence[Column[R]], *, wide: bool = False) -> list[str]:
    """Formats aligned lines, titles first; truncates cells only on a terminal.

    `wide`: shows all columns, ids too, and truncates nothing.
    """
    columns = [column for column in columns if wide or not column.wide]
    cells = [[_text(column.cell(row)) for column in columns] for row in rows]
    if is_terminal() and not wide:
        cells = [[_shorten(cell) for cell in row] for row in cells]
    titles = [column.title for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    lines = [_line(titles, widths, lambda text: colour(text, bold=True))]
    if _is_coloured():
        return lines + [_line(row, widths, _colour_state) for row in cells]
    return lines + ["  ".join(map(str.ljust, row, widths)).rstrip() for row in cells]


def say(text: str) -> None:
    """Prints a message to standard error, apart from the result."""
    print(escape_controls(text), file=sys.stderr)


def escape_controls(text: str) -> str:
    """Escapes control characters as `\\u001b`, which JSON reads as the same text."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def age(moment: str | None) -> str:
    """Age of an RFC 3339 time in its largest unit: `2m ago`, `in 3d`; `never` for None."""
    if moment is None:
        return "never"
    seconds = seconds_since(moment)
    if seconds < -_CLOCK_SKEW_SECONDS:
        return f"in {_largest_unit(-seconds)}"
    return age_of(seconds)


def age_of(seconds: float) -> str:
    """Age in its largest unit: `2m ago`."""
    return f"{_largest_unit(max(0, int(seconds)))} ago"


def seconds_since(moment: str) -> int:
    """Seconds since an RFC 3339 time; negative for a future time."""
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    return int((utc_now() - then).total_seconds())


def count(number: int, noun: str) -> str:
    """Number and noun: `1 object`, `2 objects`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def _largest_unit(seconds: int) -> str:
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"


def _value_at(row: Row, keys: Sequence[str]) -> object:
    value: object = row
    for key in keys:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _age_at(row: Row, keys: Sequence[str]) -> str:
    moment = _value_at(row, keys)
    return age(moment) if isinstance(moment, str) else ""


def _format_bytes(count: object) -> str:
    if not isinstance(count, int | float):
        return ""
    for unit in ("B", "KiB", "MiB"):
        if count < 1024:
            return f"{count:.0f} {unit}"
        count /= 1024
    return f"{count:.1f} GiB"


def short(sha: str | None) -> str:
    """First 10 characters of a commit or digest."""
    return (sha or "").removeprefix("sha256:")[:10]


def is_terminal() -> bool:
    """Returns true if standard output is a terminal."""
    return sys.stdout.isatty()


def colour(text: str, name: str | None = None, *, bold: bool = False) -> str:
    """Escapes text, and colours it on a terminal unless NO_COLOR is set."""
    text = escape_controls(text)
    return typer.style(text, fg=name, bold=bold or None) if _is_coloured() else text


def _is_coloured() -> bool:
    return is_terminal() and not os.environ.get("NO_COLOR")


def _yaml(rows: object) -> str:
    """Formats YAML; escapes all non-ASCII characters if the text has control characters."""
    dump = load("yaml").safe_dump
    text = dump(rows, sort_keys=False, allow_unicode=True)
    return dump(rows, sort_keys=False) if _CONTROLS.search(text) else text


def _line(cells: Sequence[str], widths: Sequence[int], paint: Callable[[str], str]) -> str:
    padding = [" " * (width - len(cell)) for cell, width in zip(cells, widths, strict=True)]
    painted = [paint(cell) + space for cell, space in zip(cells, padding, strict=True)]
    return "  ".join(painted).rstrip()


def _colour_state(text: str) -> str:
    state = state_colour(text)
    return colour(text, state) if state else text


def _text(value: object) -> str:
    """Formats a cell; a time is its age, as in all columns."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list) and not any(isinstance(item, list | dict) for item in value):
        return ",".join(map(_text, value))
    text = "" if value is None else str(value)
    if text[4:5] == "-" and _TIME.fullmatch(text):
        return age(text)
    # Most cells have neither other white space nor controls: this spares three passes over them.
    if text.isprintable() and "  " not in text:
        return text.strip()
    return escape_controls(" ".join(text.split()))


def _shorten(text: str) -> str:
    return text if len(text) <= MAX_CELL_WIDTH else text[: MAX_CELL_WIDTH - 1] + "…"
