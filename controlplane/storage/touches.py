"""Which rows a transaction has read and written, so that audit rows can tell from what to what.

References to the values are kept; nothing is computed unless an audit row names one of them.
"""

import hashlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, Protocol

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


class Rereads(Protocol):
    """Rows that can be read again by id."""

    async def select(self, *, id: Collection[str]) -> list[Any]: ...


class Touched(NamedTuple):
    """A row of a transaction that it wrote: as it was, and as it is; None where it was not there"""

    before: Any
    after: Any

    @property
    def digests(self) -> tuple[str, str]:
        """SHA-256 (hex) of the row before and after; empty where it was not there."""
        return _digest(self.before), _digest(self.after)


class Touches:
    """Rows by id: as they were when first read, and where those are that were written."""

    def __init__(self) -> None:
        self._before: dict[str, Any] = {}
        self._written: dict[str, Rereads] = {}

    def read(self, row: Any) -> None:
        """A row was read in order to be written."""
        self._before.setdefault(getattr(row, "id", ""), row)

    def wrote(self, id: str, rows: Rereads) -> None:
        """A row was added, changed or removed."""
        self._written[id] = rows

    async def touched(self, ids: Iterable[str]) -> dict[str, Touched]:
        """The rows of these ids, as far as they were written."""
        found = dict.fromkeys(ids, Touched(None, None))
        tables: dict[Rereads, list[str]] = {}
        for id in found.keys() & self._written.keys():
            tables.setdefault(self._written[id], []).append(id)
        for rows, some in tables.items():
            after = {one.id: one for one in await rows.select(id=some)}
            found |= {id: Touched(self._before.get(id), after.get(id)) for id in some}
        return found


def _digest(row: Any) -> str:
    if row is None:
        return ""
    return hashlib.sha256(orjson.dumps(row, default=_plain, option=_OPTIONS)).hexdigest()


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset | set):
        return sorted(value)
    return dict(value)
