"""SQLite's driver as this product uses it."""

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TypeVar

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncConnection, create_async_engine

from controlplane.storage.embedded import SqliteConnection

T = TypeVar("T")
NUMBERS = """WITH RECURSIVE s(n) AS (SELECT 4 UNION ALL SELECT n + 1 FROM s WHERE n < 2503)
  INSERT INTO t SELECT n FROM s"""


class Walking(SqliteConnection):
    """Counts the walks to its thread."""

    walks = 0

    async def on_thread(self, work: Callable[[], T]) -> T:
        self.walks += 1
        return await super().on_thread(work)


@pytest.fixture
async def opened(tmp_path: Path) -> AsyncIterator[tuple[AsyncConnection, Walking]]:
    """A connection to a table of three numbers."""
    made: list[Walking] = []

    async def connect() -> Walking:
        made.append(Walking(str(tmp_path / "x.db")))
        await made[0]
        return made[0]

    engine = create_async_engine("sqlite+aiosqlite:///x.db", async_creator=connect)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
        await connection.execute(text("INSERT INTO t VALUES (1), (2), (3)"))
        yield connection, made[0]
    await engine.dispose()


async def test_a_statement_is_one_walk(opened: tuple[AsyncConnection, Walking]) -> None:
    connection, driver = opened
    before = driver.walks
    changed = await connection.execute(text("UPDATE t SET n = n + 10"))
    found = await connection.execute(text("SELECT n FROM t ORDER BY n"))
    assert (changed.rowcount, [row.n for row in found]) == (3, [11, 12, 13])
    assert driver.walks - before == 2
    with pytest.raises(IntegrityError):
        await connection.execute(text("INSERT INTO t VALUES (11)"))


async def test_many_rows_come_whole_and_in_parts(
    opened: tuple[AsyncConnection, Walking],
) -> None:
    """In parts without ever being held together, and left in the middle."""
    connection, _ = opened
    await connection.execute(text(NUMBERS))
    asked = text("SELECT n FROM t ORDER BY n")
    assert [row.n for row in await connection.execute(asked)] == list(range(1, 2504))
    streamed = await connection.stream(asked, execution_options={"yield_per": 700})
    parts = [[row.n for row in part] async for part in streamed.partitions(700)]
    assert [len(part) for part in parts] == [700, 700, 700, 403]
    assert [n for part in parts for n in part] == list(range(1, 2504))
    left = await connection.stream(asked, execution_options={"yield_per": 700})
    assert len(await left.fetchmany(5)) == 5
    await left.close()
