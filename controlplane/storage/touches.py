"""Which rows a transaction has read and written, so that audit rows can tell from what to what.

References to the values are kept; nothing is computed unless an audit row names one of them.
"""

import hashlib
from typing import Any, Protocol

import orjson

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


class Rereads(Protocol):
    """Rows that can be read again by id."""

    async def get(self, id: str) -> Any: ...


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

    async def digests(self, id: str) -> tuple[str, str]:
        """SHA-256 (hex) of the row of this id before and after; empty where it was not there."""
        rows = self._written.get(id)
        if rows is None:
            return "", ""
        before = self._before.get(id)
        return _digest(before), _digest(await rows.get(id))


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
