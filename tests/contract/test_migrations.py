"""Stores that were in use before: their rows are there after, and refer to what they did."""

from sqlalchemy import Connection, MetaData, func, select, text

from controlplane.platform.store.engine import make_engine
from controlplane.store.migrate import migrate, migrate_connection, revisions
from tests.fakes.rows import ROWS, fill


def numbers(connection: Connection) -> dict[str, int]:
    """Number of rows of each table."""
    tables = MetaData()
    tables.reflect(connection)
    count = select(func.count())
    return {
        one.name: connection.scalar(count.select_from(one)) or 0 for one in tables.sorted_tables
    }


async def test_a_store_in_use_keeps_its_rows(store_url: str) -> None:
    """From the first schema to the newest, tables made anew on the way."""
    engine = make_engine(store_url)
    async with engine.begin() as connection:
        await connection.run_sync(migrate_connection, "0001")
        await connection.run_sync(fill)
        before = await connection.run_sync(numbers)
    await migrate(engine)
    async with engine.connect() as connection:
        after = await connection.run_sync(numbers)
        orphans = "SELECT count(*) FROM tokens WHERE user_id NOT IN (SELECT id FROM users)"
        assert await connection.scalar(text(orphans)) == 0
    current, head = await revisions(engine)
    await engine.dispose()
    assert current == head
    assert {name: after[name] for name in before} == before
    assert before["users"] == ROWS
