"""Rows that a transaction has read and written, from which audit rows take digests before and
after.

Only references to the values are kept; a digest is computed only if an audit row names its row.
"""

import hashlib
from collections.abc import Collection, Iterable
from typing import Any, NamedTuple, Protocol

import orjson

from core.json_object import JsonObject

_OPTIONS = orjson.OPT_SORT_KEYS | orjson.OPT_NON_STR_KEYS


class RereadableRows(Protocol):
    """Rows that can be read again by id."""

    async def by_ids(self, ids: Collection[str]) -> list[Any]: ...


class TouchedRow(NamedTuple):
    """A row that the transaction wrote, before and after; None where it did not exist."""

    before: object
    after: object

    @property
    def digests(self) -> tuple[str, str]:
        """Returns SHA-256 (hex) of the row before and after; empty where it did not exist."""
        return _digest(self.before), _digest(self.after)


class RowTracker:
    """Rows by id: their state at the first read, and the repository of those that were written."""

    def __init__(self) -> None:
        self._before: JsonObject = {}
        self._written: dict[str, RereadableRows] = {}

    def record_read(self, row: Any) -> None:
        """Records that a row was read in order to be written."""
        self._before.setdefault(getattr(row, "id", ""), row)

    @property
    def has_writes(self) -> bool:
        """True if a row was added, changed or removed."""
        return bool(self._written)

    def record_write(self, id: str, rows: RereadableRows) -> None:
        """Records that a row was added, changed or removed."""
        self._written[id] = rows

    async def touched(self, ids: Iterable[str]) -> dict[str, TouchedRow]:
        """Returns the rows with these ids that were written."""
        rows_by_id = dict.fromkeys(ids, TouchedRow(None, None))
        tables: dict[RereadableRows, list[str]] = {}
        for id in rows_by_id.keys() & self._written.keys():
            tables.setdefault(self._written[id], []).append(id)
        for rows, row_ids in tables.items():
            after = {row.id: row for row in await rows.by_ids(row_ids)}
            rows_by_id |= {id: TouchedRow(self._before.get(id), after.get(id)) for id in row_ids}
        return rows_by_id


def _digest(row: object) -> str:
    if row is None:
        return ""
    return hashlib.sha256(orjson.dumps(row, default=_json_value, option=_OPTIONS)).hexdigest()


def _json_value(value: Any) -> object:
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, frozenset | set):
        return sorted(value)
    return dict(value)
