"""The servers of the test run do what tests count on."""

import asyncpg
import redis.asyncio
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from tests.servers.postgres import Postgres


async def test_each_test_gets_an_empty_database_of_its_own(
    postgres: Postgres, postgres_url: str
) -> None:
    """A table made in one database is not in the next one."""
    other = postgres.new_database()
    for url in (postgres_url, other):
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.execute(text("CREATE TABLE t (n int)"))
        await engine.dispose()
    postgres.drop_database(other)


async def test_a_database_can_be_a_copy_of_a_prepared_one(postgres: Postgres) -> None:
    """What was put into the template is in its copy."""
    template = postgres.new_database()
    connection = await asyncpg.connect(template.replace("+asyncpg", ""), ssl=False)
    await connection.execute("CREATE TABLE t AS SELECT 42 AS n")
    await connection.close()

    copy = postgres.new_database(template.rpartition("/")[2])

    connection = await asyncpg.connect(copy.replace("+asyncpg", ""), ssl=False)
    assert await connection.fetchval("SELECT n FROM t") == 42
    await connection.close()
    postgres.drop_database(copy)
    postgres.drop_database(template)


async def test_redis_begins_empty_and_answers(redis_url: str) -> None:
    """A key can be written and read back."""
    async with redis.asyncio.from_url(redis_url) as client:
        assert await client.dbsize() == 0
        await client.set("a", "b")
        assert await client.get("a") == b"b"


async def test_redis_forgets_between_tests(redis_url: str) -> None:
    """What another test wrote is gone."""
    async with redis.asyncio.from_url(redis_url) as client:
        assert await client.dbsize() == 0
