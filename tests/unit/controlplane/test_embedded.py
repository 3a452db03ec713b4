"""SQLite's driver as this product uses it."""

from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import text
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import create_async_engine

from controlplane.storage.embedded import Connection


class Walking(Connection):
    """Counts the walks to its thread."""

    walks = 0

    async def on_thread(self, work: Callable[[], None]) -> None:
        self.walks += 1
        await super().on_thread(work)


async def test_a_statement_is_one_walk_however_many_rows_it_gives(tmp_path: Path) -> None:
    opened: list[Walking] = []

    async def connect() -> Walking:
        opened.append(Walking(str(tmp_path / "x.db")))
        await opened[0]
        return opened[0]

    engine = create_async_engine("sqlite+aiosqlite:///x.db", async_creator=connect)
    async with engine.begin() as connection:
        await connection.execute(text("CREATE TABLE t (n INTEGER PRIMARY KEY)"))
        before = opened[0].walks
        added = await connection.execute(text("INSERT INTO t VALUES (1), (2), (3)"))
        found = await connection.execute(text("SELECT n FROM t ORDER BY n"))
        assert (added.rowcount, [row.n for row in found]) == (3, [1, 2, 3])
        assert opened[0].walks - before == 2
        with pytest.raises(IntegrityError):
            await connection.execute(text("INSERT INTO t VALUES (1)"))
    await engine.dispose()
