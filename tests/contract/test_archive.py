"""A store as lines: out of either dialect, into either, and nothing is another thing after."""

import io
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import orjson
import pytest
from sqlalchemy import (
    Connection,
    MetaData,
    insert,
)
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.store.archive import dump, load
from controlplane.store.migrate import migrate, migrate_connection, revisions
from core.errors import Conflict, Invalid
from tests import migrated
from tests.fakes.rows import ROWS, fill, value


@pytest.fixture
async def source(migrated_url: str) -> AsyncIterator[AsyncEngine]:
    """A store with rows in each table."""
    engine = make_engine(migrated_url)
    async with engine.begin() as connection:
        await connection.run_sync(fill)
    yield engine
    await engine.dispose()


@pytest.fixture
async def target(store_url: str) -> AsyncIterator[AsyncEngine]:
    """A store with nothing in it, of each dialect for each dialect of the source."""
    engine = make_engine(store_url.replace("towline.db", "restored.db"))
    yield engine
    await engine.dispose()


@asynccontextmanager
async def filled(folder: Path) -> AsyncGenerator[AsyncEngine]:
    """A store with rows in each table, where it does not matter of which dialect."""
    engine = make_engine(migrated.put_sqlite(folder / "source"))
    async with engine.begin() as connection:
        await connection.run_sync(fill)
    yield engine
    await engine.dispose()


async def kept(engine: AsyncEngine) -> tuple[str, list[bytes]]:
    """The schema and lines of a dump."""
    into = io.BytesIO()
    schema, _ = await dump(engine, into, nothing)
    return schema, into.getvalue().splitlines(keepends=True)


def nothing(_table: str, _rows: int) -> None:
    """Progress that nobody looks at."""


def meant(lines: list[bytes]) -> list[Any]:
    """Lines as values; JSON is written with other blanks by each dialect."""
    return [
        [unquoted(one) for one in row] if isinstance(row, list) else row
        for row in map(orjson.loads, lines)
    ]


def unquoted(one: Any) -> Any:
    return orjson.loads(one) if isinstance(one, str) and one[:1] in "{[" and one else one


async def test_a_loaded_archive_equals_the_dump(source: AsyncEngine, target: AsyncEngine) -> None:
    """Every table and type, SQL's nothing apart from JSON's, through both dialects."""
    schema, lines = await kept(source)
    progress: list[int] = []
    assert await load(target, schema, lines, lambda _, rows: progress.append(rows)) == progress[-1]
    again, restored = await kept(target)
    assert again == schema
    assert meant(restored) == meant(lines)
    assert len(lines) > ROWS * 40


async def test_numbers_go_on_after_the_last(target: AsyncEngine, tmp_path: Path) -> None:
    """A row without a number gets one that is free."""
    async with filled(tmp_path) as source:
        await load(target, *await kept(source), nothing)

    def add(connection: Connection) -> Any:
        tables = MetaData()
        tables.reflect(connection, only=["ledger"])
        table = tables.tables["ledger"]
        row = {one.name: value(one, 0) for one in table.columns if one.name != "id"}
        return connection.execute(insert(table).values(row)).inserted_primary_key

    async with target.begin() as connection:
        (number,) = await connection.run_sync(add)
    assert number == 2**31


async def test_a_store_in_use_is_not_overwritten(source: AsyncEngine) -> None:
    schema, lines = await kept(source)
    with pytest.raises(Conflict, match="not empty"):
        await load(source, schema, lines, nothing)
    assert await kept(source) == (schema, lines)


SPOILT: list[tuple[Callable[[list[bytes]], list[bytes]], str]] = [
    (lambda lines: lines[:-1], "incomplete"),
    (lambda lines: lines[:-2] + lines[-1:], "incomplete"),
    (lambda lines: [*lines[:-1], lines[-1][:-3]], "not JSON"),
    (lambda lines: lines[1:], "begin with a table"),
    (lambda lines: [b'{"table": "users;", "columns": []}\n', *lines], "its schema does not have"),
    (lambda lines: [], "incomplete"),
]


async def test_a_spoilt_backup_leaves_the_store_empty(tmp_path: Path) -> None:
    """All or nothing: each attempt finds an empty store again."""
    async with filled(tmp_path) as source:
        schema, lines = await kept(source)
    target = make_engine(sqlite_url(tmp_path))
    for spoil, said in SPOILT:
        with pytest.raises(Invalid, match=said):
            await load(target, schema, spoil(lines), nothing)
        assert (await revisions(target))[0] is None
    await target.dispose()


async def test_a_store_of_an_older_version_is_brought_up(target: AsyncEngine) -> None:
    """Lines of the first schema, with rows in each table, arrive in the newest one."""
    async with target.begin() as connection:
        await connection.run_sync(migrate_connection, "0001")
        await connection.run_sync(fill)
    first, lines = await kept(target)
    async with target.begin() as connection:
        await connection.run_sync(forget)
    assert await load(target, first, lines, nothing) == orjson.loads(lines[-1])["rows"]
    is_now, newest = await revisions(target)
    assert is_now == newest


def forget(connection: Connection) -> None:
    tables = MetaData()
    tables.reflect(connection)
    tables.drop_all(connection)


async def test_a_newer_schema_and_an_empty_store_are_refused(target: AsyncEngine) -> None:
    with pytest.raises(Conflict, match="newer"):
        await load(target, "9999", [], nothing)
    with pytest.raises(Conflict, match="empty"):
        await dump(target, io.BytesIO(), nothing)
    await migrate(target)
