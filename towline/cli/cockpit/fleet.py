"""The services of a fleet, sorted by cluster and name.

A string holds the rows of up to 128 services, because a string of its own for each service takes
as much memory again as its text. 100,000 services take about 9 MB.
"""

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

from towline.cli.services.generated import ServiceRow
from towline.cli.services.reasons import FINE, first_problem, status_text
from towline.cli.shell.output import escape_controls, short

# They sort before all characters of names.
_ROW_END = "\x1e"
_SEPARATOR = "\x1f"
_MAX_BLOCK = 128


class FleetLine(NamedTuple):
    """One service as it is shown."""

    cluster: str
    name: str
    state: str
    commit: str
    problem: str
    id: str

    @property
    def label(self) -> str:
        """The name that commands accept, such as `prod-eu/web`."""
        return f"{self.cluster}/{self.name}"


class FleetIndex:
    """The services that were read, and those that match a filter."""

    def __init__(self, *, max_block: int = _MAX_BLOCK) -> None:
        """`max_block`: maximum number of services of a string."""
        self._max_block = max_block
        self._blocks: list[str] = []
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def put(self, service: ServiceRow) -> None:
        """Adds a service, or replaces it."""
        row = _packed_row(service)
        prefix = row[: row.index(_SEPARATOR, row.index(_SEPARATOR) + 1) + 1]
        block = self._block_index(prefix)
        rows = self._blocks[block].split(_ROW_END) if self._blocks else []
        index = bisect_left(rows, prefix)
        if index < len(rows) and rows[index].startswith(prefix):
            rows[index] = row
        else:
            rows.insert(index, row)
            self._size += 1
        self._replace(block, rows)

    def remove(self, id: str) -> None:
        """Removes a service, if it is there."""
        suffix = f"{_SEPARATOR}{id}"
        for block, block_text in enumerate(self._blocks):
            if suffix not in block_text:
                continue
            rows = block_text.split(_ROW_END)
            remaining = [row for row in rows if not row.endswith(suffix)]
            if len(remaining) < len(rows):
                self._size -= len(rows) - len(remaining)
                self._replace(block, remaining)
                return

    def matching(self, text: str = "", *, problems: bool = False) -> "FleetLines":
        """Services with all words of a text in any column, ignoring case.

        `problems`: only services that have a problem.
        """
        words = text.casefold().replace("/", _SEPARATOR).split()
        if not words and not problems:
            return FleetLines(self._blocks, None)
        indexes, offset = array("I"), 0
        for block in self._blocks:
            indexes.extend(offset + index for index in _matching_rows(block, words, problems))
            offset += block.count(_ROW_END) + 1
        return FleetLines(self._blocks, indexes)

    def _block_index(self, prefix: str) -> int:
        """The block that has a service, or gets it."""
        after = bisect_left(self._blocks, prefix)
        if after < len(self._blocks) and self._blocks[after].startswith(prefix):
            return after
        return max(0, after - 1)

    def _replace(self, block: int, rows: Sequence[str]) -> None:
        half = len(rows) // 2
        parts = [rows] if len(rows) <= self._max_block else [rows[:half], rows[half:]]
        self._blocks[block : block + 1] = [_ROW_END.join(part) for part in parts if part]


class FleetLines:
    """Some services of a fleet as of now, unpacked when they are shown."""

    def __init__(self, blocks: Sequence[str], indexes: Sequence[int] | None) -> None:
        """`indexes`: the rows that are shown; None: all."""
        self._blocks = tuple(blocks)
        self._starts = [0, *accumulate(block.count(_ROW_END) + 1 for block in blocks)]
        self._indexes = indexes
        self._opened: tuple[int, Sequence[str]] = (-1, ())

    def __len__(self) -> int:
        return self._starts[-1] if self._indexes is None else len(self._indexes)

    def __iter__(self) -> Iterator[FleetLine]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, index: int) -> FleetLine:
        row = index if self._indexes is None else self._indexes[index]
        block = bisect_right(self._starts, row) - 1
        if self._opened[0] != block:
            self._opened = block, self._blocks[block].split(_ROW_END)
        return FleetLine(*self._opened[1][row - self._starts[block]].split(_SEPARATOR))


def _matching_rows(block: str, words: Sequence[str], problems: bool) -> Sequence[int]:
    """Indexes of the rows of a block that match."""
    folded = block.casefold()
    if not all(word in folded for word in words):
        return ()
    rows = folded.split(_ROW_END)
    indexes: Sequence[int] = range(len(rows))
    for word in words:
        indexes = [index for index in indexes if word in rows[index]]
    if problems and indexes:
        states = [row.split(_SEPARATOR, 3)[2].split(" ")[0] for row in block.split(_ROW_END)]
        indexes = [index for index in indexes if states[index] not in FINE]
    return indexes


def _packed_row(service: ServiceRow) -> str:
    """Joins the fields of a service. No field contains the separator, a control character."""
    cluster = service["cluster"]
    fields = (
        cluster["handle"] if cluster else "?",
        service["name"],
        status_text(service),
        short(service["sha"]),
        " ".join(first_problem(service)[:200].split()),
        service["id"],
    )
    return _SEPARATOR.join(map(escape_controls, fields))
