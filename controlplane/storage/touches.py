"""Which rows a transaction has read and written, so that audit rows can tell from what to what.

References to the values are kept; nothing is computed unless an audit row names one of them.
"""

import hashlib
from typing import Any, NamedTuple, Protocol

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


class Rereads(Protocol):
    """Rows that can be read again by id."""

    async def get(self, id: str) -> Any: ...


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

    async def touched(self, id: str) -> Touched:
        """The row of this id, if it was written."""
        rows = self._written.get(id)
        if rows is None:
            return Touched(None, None)
        return Touched(self._before.get(id), await rows.get(id))


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
