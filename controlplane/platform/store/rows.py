"""Table rows as domain values: one column for each field."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cache, partial
from types import new_class
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    Column,
    ColumnElement,
    CursorResult,
    Executable,
    Insert,
    Select,
    Table,
    Update,
    and_,
    bindparam,
    delete,
    func,
    insert,
    literal,
    or_,
    select,
    true,
    tuple_,
    update,
)
from sqlalchemy.exc import IntegrityError

from controlplane.authorization import Visible
from controlplane.platform.batch import is_batch_open
from controlplane.platform.labels import LabelRequirement
from controlplane.platform.parts import Columns, column_getter, column_names, row_maker
from controlplane.platform.ports import ANY, MAX_COUNTED, Page, PageQuery, ReadableRows
from controlplane.platform.store.columns import contains
from controlplane.platform.store.connection import StoreConnection
from controlplane.platform.store.remembered import read_key
from controlplane.platform.store.transaction import Repositories, SqlTransaction
from controlplane.platform.store.visibility import rows_with_label, rows_with_tag, visible_rows
from core.errors import Conflict, Invalid

T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R", bound=ReadableRows[Any])


_Shape = tuple[tuple[str, str], ...]
"""Names of columns, each with its test: `one` value, one of `many`, `none`, `any`, or `between`."""


@cache
def _select_rows(table: Table, kind: Any) -> Any:
    """Returns the statement that selects the columns of a value's fields, in their order."""
    return select(*(table.c[name] for name in column_names(kind)))


@cache
def _select_by_shape(
    table: Table, kind: object, shape: _Shape, *, first: bool, locked: bool
) -> Select[Any]:
    """Returns the cached statement that finds rows by these columns, bound as `by_<name>` or, for
    the end of a range, `to_<name>`.

    Most reads use it: building and compiling a statement costs more than running it.
    """
    where = []
    for name, test in shape:
        column = table.c[name]
        parameters = [
            bindparam(f"{bound}_{name}", type_=column.type, expanding=test == "many")
            for bound in ("by", "to")
        ]
        where.append(_condition(column, test, *parameters))
    statement = _select_rows(table, kind).where(*where)
    if not first:
        return statement.order_by(table.c.id)
    statement = statement.limit(1)
    return statement.with_for_update(key_share=True) if locked else statement


def _condition(column: Column[Any], test: str, *values: Any) -> ColumnElement[bool]:
    match test:
        case "any":
            return true()
        case "none":
            return column.is_(None)
        case "many":
            return column.in_(values[0])
        case "between":
            return column.between(*values)
    return column == values[0]


def _test_and_values(value: object) -> tuple[str, tuple[Any, ...]]:
    """Returns the test of a column that the value of a read means, and the values of the test."""
    if value is ANY:
        return "any", ()
    if value is None:
        return "none", ()
    if isinstance(value, range):
        return "between", (value.start, value.stop - 1)
    if isinstance(value, Collection) and not isinstance(value, str | bytes):
        return "many", (list(value),)
    return "one", (value,)


def _undeleted(table: Table, equals: Mapping[str, object]) -> Mapping[str, object]:
    """Leaves out deleted rows, unless the columns say otherwise."""
    return equals if "deleted_at" not in table.c else {"deleted_at": None, **equals}


@cache
def _update_statement(table: Table, names: tuple[str, ...]) -> Update:
    """Returns the cached statement that changes columns of `row`, bound as `to_<name>`."""
    columns = {name: bindparam(f"to_{name}", type_=table.c[name].type) for name in names}
    return update(table).where(table.c.id == bindparam("row")).values(**columns)


@cache
def _insert_statement(table: Table) -> Insert:
    """Returns the cached statement that adds rows."""
    return insert(table)


class SqlReading(ReadableRows[T]):
    """Reads rows of `table` as `kind`. `searched` names the columns for free text search."""

    def __init__(
        self,
        connection: StoreConnection,
        table: Table,
        kind: Callable[..., T],
        searched: tuple[str, ...] = (),
    ) -> None:
        self._connection = connection
        self._table = table
        self._kind = kind
        self._searched = searched
        self._names, self._rows = column_names(kind), _select_rows(table, kind)
        self._make = row_maker(kind)
        self._column_values = column_getter(kind)

    async def find(self, **equals: object) -> T | None:
        return await self._find_first(equals)

    async def find_unlocked(self, **equals: object) -> T | None:
        return await self._find_first(equals)

    async def _find_first(self, equals: Mapping[str, object], *, locked: bool = False) -> T | None:
        rows = await self._read(equals, first=True, locked=locked)
        return rows[0] if rows else None

    async def select(self, **equals: object) -> list[T]:
        return await self._read(equals)

    async def _read(
        self, equals: Mapping[str, object], *, first: bool = False, locked: bool = False
    ) -> list[T]:
        """Returns the matching rows, or the first one, from an earlier read if possible."""
        read = read_key(self._kind, equals, first=first)
        rows: list[T] | None = self._connection.reads.get(self._table, read)
        if rows is None:
            rows = await self._fetch_matching(equals, first=first, locked=locked)
            self._connection.reads.store(self._table, read, rows)
        return rows

    async def _fetch_matching(
        self, equals: Mapping[str, object], *, first: bool = False, locked: bool = False
    ) -> list[T]:
        shape, values = [], {}
        for name, value in _undeleted(self._table, equals).items():
            test, bounds = _test_and_values(value)
            if test == "many" and not bounds[0]:
                return []
            shape.append((name, test))
            values |= zip((f"by_{name}", f"to_{name}"), bounds, strict=False)
        statement = _select_by_shape(
            self._table, self._kind, tuple(shape), first=first, locked=locked
        )
        return await self._fetch(statement, values)

    async def prefetch(self, column: str, values: Collection[str]) -> None:
        await self.prefetch_keys((column,), [(value,) for value in values])

    async def prefetch_keys(
        self, columns: Sequence[str], keys: Collection[Sequence[str]], **equals: object
    ) -> None:
        reads = self._connection.reads
        if not reads.is_enabled:
            return
        rows_by_key: dict[tuple[str, ...], list[T]] = {tuple(key): [] for key in keys}
        for chunk in chunks(rows_by_key):
            values = {name: {key[n] for key in chunk} for n, name in enumerate(columns)}
            for row in await self._fetch_matching({**values, **equals}):
                key = tuple(getattr(row, name) for name in columns)
                if key in rows_by_key:
                    rows_by_key[key].append(row)
        for key, rows in rows_by_key.items():
            of_key = {**dict(zip(columns, key, strict=True)), **equals}
            reads.store(self._table, read_key(self._kind, of_key), rows)
            reads.store(self._table, read_key(self._kind, of_key, first=True), rows[:1])

    def mark_absent(self, column: str, value: str) -> None:
        self._connection.reads.mark_absent(self._table, column, value)

    async def column(self, name: str, ids: Collection[str] | None = None) -> dict[str, Any]:
        table, values = self._table.c, {}
        for chunk in (ANY,) if ids is None else chunks(ids):
            statement = select(table.id, table[name]).where(self._where({"id": chunk}))
            values |= dict(map(tuple, await self._connection.execute(statement)))
        return values

    async def past(self, column: str, moment: datetime) -> list[T]:
        return await self._fetch(self._rows.where(self._table.c[column] <= moment))

    async def since(
        self, columns: Collection[str], moment: datetime, visible: Visible, limit: int
    ) -> list[str]:
        table = self._table
        statement = select(table.c.id).where(
            or_(*(table.c[name] >= moment for name in columns)), visible_rows(table, visible)
        )
        return list((await self._connection.execute(statement.limit(limit))).scalars())

    async def with_labels(self, labels: Sequence[LabelRequirement]) -> list[T]:
        where = self._filtered(PageQuery(labels=labels))
        return await self._fetch(self._rows.where(*where).order_by(self._table.c.id))

    async def page(self, query: PageQuery) -> Page[T]:
        return await self._page(query, ())

    async def _page(self, query: PageQuery, conditions: Iterable[ColumnElement[bool]]) -> Page[T]:
        first = query.first
        key = self._table.c.id
        is_falling = query.newest != query.backwards
        where = [*self._filtered(query), *conditions]
        by = (key,) if query.order == "id" else (self._table.c[query.order], key)
        if query.after is not None:
            where.append(await self._after_cursor(query, by))
        order = [column.desc() if is_falling else column for column in by]
        ids = select(key).where(*where).order_by(*order).limit(first + 1)
        # The page is found among keys first, so that a scan reads no whole rows.
        rows = await self._fetch(self._rows.where(key.in_(ids)).order_by(*order))
        shown = rows[:first]
        count = (
            await self._count_limited([*self._filtered(query), *conditions])
            if query.counting
            else None
        )
        items = tuple(reversed(shown) if query.backwards else shown)
        return Page(items, len(rows) > first, count)

    async def _after_cursor(
        self, query: PageQuery, by: Sequence[Column[Any]]
    ) -> ColumnElement[bool]:
        """Returns the condition for rows after the cursor's row, sorted by columns.

        Raises Invalid if that row was deleted or is not visible: its position would reveal its
        name.
        """
        *named, key = by
        id, is_falling = self._parse_cursor(query), query.newest != query.backwards
        if not named:
            return key < id if is_falling else key > id
        statement = select(*named).where(key == id, visible_rows(self._table, query.visible))
        value = (await self._connection.execute(statement)).scalar()
        if value is None:
            raise Invalid(
                "the cursor's row no longer exists: start again at the first page",
                field=query.cursor_argument,
            )
        row_position, cursor_position = (
            tuple_(*by),
            tuple_(literal(value, named[0].type), literal(id, key.type)),
        )
        return row_position < cursor_position if is_falling else row_position > cursor_position

    async def _count_limited(self, where: Iterable[ColumnElement[bool]]) -> int:
        limited = select(self._table.c.id).where(*where).limit(MAX_COUNTED + 1)
        total = select(func.count()).select_from(limited.subquery())
        return (await self._connection.execute(total)).scalar_one()

    def _filtered(self, query: PageQuery) -> list[ColumnElement[bool]]:
        """Returns the condition for all rows of a list, independent of the page."""
        where = [self._where(query.equals), visible_rows(self._table, query.visible)]
        dialect = self._connection.dialect
        where += [rows_with_tag(self._table, tag, dialect) for tag in query.tags]
        where += [rows_with_label(self._table, label, dialect) for label in query.labels]
        if query.seen_since is not None:
            where.append(self._table.c.pinged_at >= query.seen_since)
        if query.not_seen_since is not None:
            where.append(self._table.c.pinged_at < query.not_seen_since)
        if query.text:
            where.append(self._text_condition(query.text))
        return where

    def _parse_cursor(self, query: PageQuery) -> str | int:
        cursor = query.after or ""
        if self._table.c.id.type.python_type is not int:
            return cursor
        if not cursor.isdecimal():
            raise Invalid("is not a cursor of this list", field=query.cursor_argument)
        return int(cursor)

    def _text_condition(self, text: str) -> ColumnElement[bool]:
        dialect = self._connection.dialect
        return or_(*(contains(self._table.c[n], text, dialect) for n in self._searched))

    def _where(self, equals: Mapping[str, object]) -> ColumnElement[bool]:
        conditions = []
        for name, value in _undeleted(self._table, equals).items():
            test, values = _test_and_values(value)
            conditions.append(_condition(self._table.c[name], test, *values))
        return and_(True, *conditions)

    async def _fetch(
        self, statement: Executable, given: Mapping[str, object] | None = None
    ) -> list[T]:
        result = await self._connection.execute(statement, given)
        return [self._make(*row) for row in result.all()]


class SqlRows(SqlReading[T]):
    """Reads and writes rows.

    A writing transaction locks the rows that it reads by name until its end, so that no update is
    lost. `find_unlocked` reads without a lock. SQLite has one writer at a time, and ignores locks.
    """

    async def find(self, **equals: object) -> T | None:
        if self._connection.read_only:
            return await super().find(**equals)
        row = await self._find_first(equals, locked=True)
        if row is not None:
            self._connection.touches.record_read(row)
        return row

    async def lock(self, ids: Collection[str]) -> list[T]:
        rows_read: list[T] = []
        for chunk in chunks(sorted(ids)):
            rows = self._rows.where(self._where({"id": chunk})).order_by(self._table.c.id)
            rows_read += await self._fetch(rows.with_for_update(key_share=True))
        for row in rows_read:
            self._connection.touches.record_read(row)
        return rows_read

    async def add(self, row: T) -> None:
        """Adds a row. On SQLite, a batch adds several in one statement: their operations have
        checked unique names before."""
        self._connection.touches.record_write(getattr(row, "id", ""), self)
        values, reads = self._values(row), self._connection.reads
        if not (reads.is_enabled and is_batch_open()):
            await self._write(_insert_statement(self._table), [values], id=values.get("id"))
            return
        reads.invalidate_added(self._table, values)
        id = values.get("id")
        reads.store(self._table, read_key(self._kind, {"id": id}, first=True), [row])
        await self._connection.execute_later(
            _insert_statement(self._table), values, partial(_conflict, self._table)
        )

    async def _put_later(self, row: T) -> None:
        """Writes a row that exists; on SQLite, a batch writes several in one statement."""
        reads = self._connection.reads
        if not (reads.is_enabled and is_batch_open()):
            return await SqlRows.put(self, row)
        values = self._values(row)
        id = values.pop("id")
        self._connection.touches.record_write(id, self)
        statement = _update_statement(self._table, tuple(sorted(values)))
        reads.invalidate(statement, id)
        columns = {f"to_{name}": value for name, value in values.items()}
        await self._connection.execute_later(
            statement, {"row": id, **columns}, partial(_conflict, self._table)
        )

    async def add_each(self, several: Iterable[T]) -> None:
        rows = [self._values(value) for value in several]
        for row in rows:
            self._connection.touches.record_write(row["id"], self)
        if rows:
            await self._write(_insert_statement(self._table), rows)

    async def put(self, row: T) -> None:
        values = self._values(row)
        await self.change(values.pop("id"), **values)

    async def change(self, id: str, **columns: object) -> bool:
        self._connection.touches.record_write(id, self)
        row = {f"to_{name}": value for name, value in columns.items()}
        statement = _update_statement(self._table, tuple(sorted(columns)))
        return (await self._write(statement, {"row": id, **row}, id=id)).rowcount == 1

    async def change_each(self, changes: Mapping[str, Mapping[str, object]]) -> None:
        """Groups rows whose changes have the same columns into one statement.

        Locks all rows in the order of ids, as all bulk writers do.
        """
        shapes: dict[tuple[str, ...], list[dict[str, object]]] = {}
        for id, columns in sorted(changes.items()):
            self._connection.touches.record_write(id, self)
            row = {f"to_{name}": value for name, value in columns.items()}
            shapes.setdefault(tuple(sorted(columns)), []).append({"row": id, **row})
        if len(shapes) > 1 and self._connection.dialect == "postgresql":
            await self._lock_rows(changes)
        for names, rows in shapes.items():
            await self._write(_update_statement(self._table, names), rows)

    async def _write(
        self,
        statement: Executable,
        rows: Sequence[Mapping[str, object]] | Mapping[str, object] | None = None,
        *,
        id: str | None = None,
    ) -> CursorResult[Any]:
        """Runs a statement that writes. Conflict: a row with the same unique name exists."""
        try:
            return await self._connection.execute(statement, rows, id=id)
        except IntegrityError as error:
            raise _conflict(self._table, error) from error

    async def _lock_rows(self, ids: Collection[str]) -> None:
        key = self._table.c.id
        for chunk in chunks(sorted(ids)):
            statement = select(key).where(key.in_(chunk)).order_by(key)
            await self._connection.execute(statement.with_for_update(key_share=True))

    async def remove(self, id: str) -> None:
        self._connection.touches.record_write(id, self)
        await self._connection.execute(delete(self._table).where(self._table.c.id == id))

    async def remove_each(self, ids: Collection[str]) -> None:
        for chunk in chunks(ids):
            for id in chunk:
                self._connection.touches.record_write(id, self)
            await self._connection.execute(delete(self._table).where(self._table.c.id.in_(chunk)))

    async def remove_before(self, column: str, moment: datetime) -> None:
        past = self._table.c[column] <= moment
        await self._connection.execute(delete(self._table).where(past))

    async def count(self) -> int:
        result = await self._connection.execute(select(func.count()).select_from(self._table))
        return result.scalar_one()

    def _values(self, row: T) -> Columns:
        """Returns the columns to write for a whole row, including derived ones."""
        return dict(zip(self._names, self._column_values(row), strict=True))


class SqlLog(SqlReading[T]):
    """Appends rows and reads them; never changes or removes one."""

    async def append(self, entries: Iterable[T]) -> None:
        rows = [{n: getattr(e, n) for n in self._names if n != "id"} for e in entries]
        if rows:
            await self._connection.execute(insert(self._table), rows)


def chunks(values: Collection[V], size: int = 500) -> Iterable[list[V]]:
    """Splits values into parts small enough for one statement's parameters."""
    items = list(values)
    return (items[start : start + size] for start in range(0, len(items), size))


def _conflict(table: Table, error: IntegrityError) -> Exception:
    text = str(error.orig)
    if "UNIQUE" in text or "unique" in text:
        noun = table.name.removesuffix("s").replace("repositorie", "repository")
        return Conflict(f"this {noun} already exists: its name, handle or URL is taken")
    return error


@dataclass(frozen=True, slots=True)
class TableRows(Generic[T]):
    """Makes the repository of a table that needs no SQL of its own, in a transaction."""

    port: type[ReadableRows[T]]
    table: Table
    kind: Callable[..., T]
    searched: tuple[str, ...] = ()

    def __call__(self, tx: SqlTransaction) -> ReadableRows[T]:
        implementation = with_verbs(SqlRows, self.port)
        return implementation(tx.connection, self.table, self.kind, self.searched)


def tables(*rows: TableRows[Any]) -> Repositories:
    """Returns the makers of repositories by port."""
    return {repository.port: repository for repository in rows}


@cache
def with_verbs(rows: type[R], port: type[ReadableRows[T]]) -> type[R]:
    """Returns a class of rows that has the verbs of a port as well."""
    return new_class(port.__name__, (rows, port))  # ty: ignore[invalid-explicit-return]
