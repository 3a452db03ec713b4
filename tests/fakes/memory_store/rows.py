"""Rows of a table as domain values: the counterparts of `SqlReading`, `SqlRows` and `SqlLog`."""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy import Table

from controlplane.authorization import Visible
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.parts import column_getter, column_names, row_maker
from controlplane.platform.ports import ANY, MAX_COUNTED, Page, PageQuery, ReadableRows
from core.errors import Conflict, Invalid
from tests.fakes.memory_store.columns import codec_of
from tests.fakes.memory_store.connection import MemoryConnection, Predicate
from tests.fakes.memory_store.constraints import Key, NotUnique, Row
from tests.fakes.memory_store.filters import equal, every, listed, reached, visible_rows

T = TypeVar("T")


class MemoryReading(ReadableRows[T]):
    """Reads rows of `table` as `kind`. `searched` names the columns for free text search."""

    def __init__(
        self,
        connection: MemoryConnection,
        table: Table,
        kind: Callable[..., T],
        searched: tuple[str, ...] = (),
    ) -> None:
        self._connection = connection
        self._table = table
        self._searched = searched
        self._names = column_names(kind)
        self._make = row_maker(kind)
        self._column_values = column_getter(kind)

    async def find(self, **equals: object) -> T | None:
        return await self.find_unlocked(**equals)

    async def find_unlocked(self, **equals: object) -> T | None:
        matches = equal(self._table, equals)
        for row in self._connection.rows(self._table):
            if matches(row):
                return self._value(row)
        return None

    async def select(self, **equals: object) -> list[T]:
        return self._select(equal(self._table, equals))

    async def prefetch(self, column: str, values: Collection[str]) -> None:
        """Reads nothing: this store has no cache."""

    async def prefetch_keys(
        self, columns: Sequence[str], keys: Collection[Sequence[str]], **equals: object
    ) -> None:
        """Reads nothing: this store has no cache."""

    def mark_absent(self, column: str, value: str) -> None:
        """Keeps nothing: this store has no cache."""

    async def column(self, name: str, ids: Collection[str] | None = None) -> dict[str, Any]:
        read = codec_of(self._table.c[name]).read
        asked = {"id": ANY if ids is None else set(ids)}
        rows = self._connection.where(self._table, equal(self._table, asked))
        return {row["id"]: read(row[name]) for row in rows}

    async def past(self, column: str, moment: datetime) -> list[T]:
        return self._select(reached([column], lambda at: at <= moment))

    async def since(
        self, columns: Collection[str], moment: datetime, visible: Visible, limit: int
    ) -> list[str]:
        is_visible = visible_rows(self._connection, self._table, visible)
        is_changed = reached(columns, lambda at: at >= moment)
        rows = self._connection.where(self._table, every([is_changed, is_visible]))
        return [row["id"] for row in rows[:limit]]

    async def with_labels(self, labels: Sequence[LabelRequirement]) -> list[T]:
        query = PageQuery(labels=labels)
        return self._select(listed(self._connection, self._table, self._searched, query))

    async def page(self, query: PageQuery) -> Page[T]:
        return self._page(query, lambda row: True)

    def _page(self, query: PageQuery, matches: Predicate) -> Page[T]:
        first = query.first
        is_falling = query.newest != query.backwards
        is_listed = listed(self._connection, self._table, self._searched, query)
        found = self._connection.where(self._table, every([is_listed, matches]))
        count = min(len(found), MAX_COUNTED + 1) if query.counting else None

        def place(row: Row) -> tuple[Any, Any]:
            return row[query.order], row["id"]

        found.sort(key=place, reverse=is_falling)
        if query.after is not None:
            cursor = self._cursor(query)
            found = [r for r in found if (place(r) < cursor if is_falling else place(r) > cursor)]
        shown = found[:first]
        items = tuple(map(self._value, reversed(shown) if query.backwards else shown))
        return Page(items, len(found) > first, count)

    def _cursor(self, query: PageQuery) -> tuple[Any, Any]:
        """Returns the place of a cursor's row. Raises Invalid if it is gone or not visible."""
        after: str | int = query.after or ""
        if self._table.c.id.type.python_type is int:
            if not str(after).isdecimal():
                raise Invalid("is not a cursor of this list", field=query.cursor_argument)
            after = int(after)
        if query.order == "id":
            return after, after
        is_visible = visible_rows(self._connection, self._table, query.visible)
        for row in self._connection.where(self._table, is_visible):
            if row["id"] == after and row[query.order] is not None:
                return row[query.order], after
        raise Invalid(
            "the cursor's row no longer exists: start again at the first page",
            field=query.cursor_argument,
        )

    def _select(self, matches: Predicate) -> list[T]:
        rows = self._connection.where(self._table, matches)
        return [self._value(row) for row in sorted(rows, key=lambda row: row["id"])]

    def _value(self, row: Row) -> T:
        table = self._table.c
        return self._make(*(codec_of(table[name]).read(row[name]) for name in self._names))


class MemoryRows(MemoryReading[T]):
    """Reads and writes rows. Writing transactions run one after another, so nothing is locked."""

    async def find(self, **equals: object) -> T | None:
        found = await super().find(**equals)
        if found is not None and not self._connection.read_only:
            self._connection.touches.record_read(found)
        return found

    async def lock(self, ids: Collection[str]) -> list[T]:
        found = await self.select(id=set(ids))
        for row in found:
            self._connection.touches.record_read(row)
        return found

    async def add(self, row: T) -> None:
        self._connection.touches.record_write(getattr(row, "id", ""), self)
        with self._conflicts():
            self._connection.insert(self._table, [self._values(row)])

    async def add_each(self, several: Iterable[T]) -> None:
        rows = [self._values(value) for value in several]
        for row in rows:
            self._connection.touches.record_write(row["id"], self)
        with self._conflicts():
            self._connection.insert(self._table, rows)

    async def put(self, row: T) -> None:
        values = self._values(row)
        await self.change(values.pop("id"), **values)

    async def change(self, id: str, **columns: object) -> bool:
        self._connection.touches.record_write(id, self)
        with self._conflicts():
            return self._connection.update(self._table, self._keys([id]), columns) == 1

    async def change_each(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        for id, columns in changes.items():
            self._connection.touches.record_write(id, self)
            with self._conflicts():
                self._connection.update(self._table, self._keys([id]), columns)

    async def remove(self, id: str) -> None:
        await self.remove_each([id])

    async def remove_each(self, ids: Collection[str]) -> None:
        for id in ids:
            self._connection.touches.record_write(id, self)
        self._connection.delete(self._table, self._keys(ids))

    async def remove_before(self, column: str, moment: datetime) -> None:
        is_past = reached([column], lambda at: at <= moment)
        self._connection.delete(self._table, self._connection.keys(self._table, is_past))

    async def count(self) -> int:
        return len(self._connection.rows(self._table))

    def _values(self, row: T) -> dict[str, Any]:
        """Returns the columns to write for a whole row, including derived ones."""
        return dict(zip(self._names, self._column_values(row), strict=True))

    def _keys(self, ids: Iterable[str]) -> list[Key]:
        return [(id,) for id in ids]

    @contextmanager
    def _conflicts(self) -> Generator[None, None, None]:
        """Translates the error for a unique column, as the SQL store does."""
        try:
            yield
        except NotUnique as error:
            noun = self._table.name.removesuffix("s").replace("repositorie", "repository")
            taken = f"this {noun} already exists: its name, handle or URL is taken"
            raise Conflict(taken) from error


class MemoryLog(MemoryReading[T]):
    """Appends rows and reads them; never changes or removes one."""

    async def append(self, entries: Iterable[T]) -> None:
        names = [name for name in self._names if name != "id"]
        rows = [{name: getattr(entry, name) for name in names} for entry in entries]
        self._connection.insert(self._table, rows)
