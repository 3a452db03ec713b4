"""Output of commands: tables for people; JSON, YAML and names for programs."""

import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

import typer

from towline.cli.lazy_import import load

Row = Mapping[str, Any]
MAX_CELL_WIDTH = 60

# C0 and C1 controls except tab and line feed, and bidirectional controls: names, URLs and messages
# are untrusted, and a terminal would interpret them.
_CONTROLS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)
_COLOURS = {
    "HEALTHY": "green",
    "OPEN": "green",
    "PULLABLE": "green",
    "FAILED": "red",
    "CLOSED": "red",
    "STALE": "yellow",
    "PENDING": "yellow",
    "RUNNING": "yellow",
}


class Format(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table: its title, and its value for a row."""

    title: str
    cell: Callable[[Row], object]


def field(title: str, *path: str) -> Column:
    """Column with the value at a path of keys (default: the title in lower case)."""
    keys = path or (title.lower(),)

    def cell(row: Row) -> object:
        value: Any = row
        for key in keys:
            value = (value or {}).get(key)
        return value

    return Column(title, cell)


def since(title: str, key: str) -> Column:
    """Column with the age of a time."""
    return Column(title, lambda row: age(row.get(key)))


def amount(title: str, key: str) -> Column:
    """Column with a number of bytes."""
    return Column(title, lambda row: _in_bytes(row.get(key)))


def show(rows: Sequence[Row] | Row, columns: Sequence[Column], form: Format, name: str) -> None:
    """Prints rows, or one row, in a format; `name` is the key that `Format.NAME` prints."""
    many = [rows] if isinstance(rows, Mapping) else list(rows)
    if form is Format.JSON:
        print(escape_controls(json.dumps(rows, indent=2, ensure_ascii=False)))
    elif form is Format.YAML:
        print(_yaml(rows), end="")
    elif form is Format.NAME:
        print(
            *(escape_controls(str(row[name])) for row in many), sep="\n", end="\n" if many else ""
        )
    elif many:
        print(*table(many, columns), sep="\n")


def table(rows: Sequence[Row], columns: Sequence[Column]) -> list[str]:
    """Formats aligned lines, titles first; truncates cells only on a terminal."""
    cells = [[_text(column.cell(row)) for column in columns] for row in rows]
    if is_terminal():
        cells = [[_cut(cell) for cell in row] for row in cells]
    titles = [column.title for column in columns]
    widths = [max(map(len, column)) for column in zip(titles, *cells, strict=True)]
    lines = [_line(titles, widths, lambda text: colour(text, bold=True))]
    return lines + [_line(row, widths, _by_meaning) for row in cells]


def say(text: str) -> None:
    """Prints a message to standard error, apart from the result."""
    print(escape_controls(text), file=sys.stderr)


def escape_controls(text: str) -> str:
    """Escapes control characters as `\\u001b`, which JSON reads as the same text."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def age(moment: str | None) -> str:
    """Age of an RFC 3339 time in its largest unit; `never` for None."""
    if moment is None:
        return "never"
    then = datetime.fromisoformat(moment.replace("Z", "+00:00"))
    seconds = int((load("core.runtime.clock").SystemClock().now() - then).total_seconds())
    for unit, size in (("d", 86_400), ("h", 3_600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{seconds // size}{unit} ago"
    return f"{max(0, seconds)}s ago"


def _in_bytes(count: float | None) -> str:
    if count is None:
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
    plain = not is_terminal() or bool(os.environ.get("NO_COLOR"))
    return text if plain else typer.style(text, fg=name, bold=bold or None)


def _yaml(rows: Sequence[Row] | Row) -> str:
    """Formats YAML; escapes all non-ASCII characters if the text has control characters."""
    dump = load("yaml").safe_dump
    text = dump(rows, sort_keys=False, allow_unicode=True)
    return dump(rows, sort_keys=False) if _CONTROLS.search(text) else text


def _line(cells: Sequence[str], widths: Sequence[int], paint: Callable[[str], str]) -> str:
    padding = [" " * (width - len(cell)) for cell, width in zip(cells, widths, strict=True)]
    painted = [paint(cell) + space for cell, space in zip(cells, padding, strict=True)]
    return "  ".join(painted).rstrip()


def _by_meaning(text: str) -> str:
    return colour(text, _COLOURS[text]) if text in _COLOURS else text


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return escape_controls(" ".join(str("" if value is None else value).split()))


def _cut(text: str) -> str:
    return text if len(text) <= MAX_CELL_WIDTH else text[: MAX_CELL_WIDTH - 1] + "…"
