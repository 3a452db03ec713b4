"""The services of a fleet, sorted by cluster and name.

Each service is one string, so that 100,000 of them take about 20 MB.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from towline.cli.services.generated import ServiceRow
from towline.cli.services.reasons import FINE, first_problem, status_text
from towline.cli.shell.output import escape_controls, short

# Sorts before all characters of names.
_SEPARATOR = "\x1f"


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

    def __init__(self) -> None:
        self._rows: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    def put(self, service: ServiceRow) -> None:
        """Adds a service, or replaces it."""
        row = _packed(service)
        prefix = row[: row.index(_SEPARATOR, row.index(_SEPARATOR) + 1) + 1]
        place = bisect_left(self._rows, prefix)
        if place < len(self._rows) and self._rows[place].startswith(prefix):
            self._rows[place] = row
        else:
            self._rows.insert(place, row)

    def remove(self, id: str) -> None:
        """Removes a service, if it is there."""
        end = f"{_SEPARATOR}{id}"
        for place, row in enumerate(self._rows):
            if row.endswith(end):
                del self._rows[place]
                return

    def matching(self, text: str = "", *, problems: bool = False) -> "FleetLines":
        """Services with all words of a text in any column, ignoring case.

        `problems`: only services that are not as they should be.
        """
        rows: Sequence[str] = self._rows
        for word in text.casefold().replace("/", _SEPARATOR).split():
            rows = [row for row in rows if word in row.casefold()]
        if problems:
            rows = [row for row in rows if row.split(_SEPARATOR, 3)[2].split(" ")[0] not in FINE]
        return FleetLines(rows)


class FleetLines:
    """Some services of a fleet, unpacked when they are shown."""

    def __init__(self, rows: Sequence[str]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __iter__(self) -> Iterator[FleetLine]:
        return map(self.__getitem__, range(len(self)))

    def __getitem__(self, place: int) -> FleetLine:
        return FleetLine(*self._rows[place].split(_SEPARATOR))


def _packed(service: ServiceRow) -> str:
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
