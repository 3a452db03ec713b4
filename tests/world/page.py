"""The page with the results of `make world`."""

import os
import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "world.md"
PARTS = ("render", "install", "clients", "specs", "readme")
_WRITE = "TOWLINE_WORLD_WRITE"
"""Environment variable: results of whole parts replace those of the page."""


def publish(part: str, table: str, *, whole: bool) -> None:
    """Prints a table; writes it into the page if a whole part ran and the caller asks for it."""
    print(table, flush=True)
    if whole and os.environ.get(_WRITE):
        PAGE.write_text(replaced(PAGE.read_text(), part, table))


def replaced(page: str, part: str, table: str) -> str:
    """Returns the page with another table between the marks of a part."""
    begin, end = f"<!-- world: {part} -->\n", "<!-- end -->"
    marked = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    text, number = marked.subn(lambda found: f"{found[1]}\n{table}\n\n{found[2]}", page)
    assert number == 1, f"{PAGE.name} has no place for {part}"
    return text
