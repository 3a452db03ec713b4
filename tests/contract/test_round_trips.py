"""Round trips to PostgreSQL beside statements, and ended connections."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest
from sqlalchemy import event
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.clusters.ports import ClusterStore
from controlplane.platform.store import engine as engines
from controlplane.platform.store.engine import make_engine
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from tests import migrated
from tests.servers.postgres import Postgres


@pytest.fixture
async def engine(postgres: Postgres) -> AsyncIterator[AsyncEngine]:
    url = migrated.new_postgres(postgres)
    made = make_engine(url)
    yield made
    await made.dispose()
    postgres.drop_database(url)


@pytest.fixture
def said(engine: AsyncEngine) -> list[str]:
    """The first words of all that is said beside prepared statements, which all ours are."""
    words: list[str] = []

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
        connection.driver_connection.add_query_logger(
            lambda record: words.append(record.query.rstrip(";").partition(" ")[0])
        )

    return words


async def count(store: SqlStore) -> int:
    async with store.read() as tx:
        return len(await tx[ClusterStore].all())


async def test_a_read_says_its_statements_and_nothing_else(
    engine: AsyncEngine, said: list[str]
) -> None:
    store = SqlStore(engine, REPOSITORIES)
    await count(store)
    said.clear()
    await count(store)
    assert said == []
    async with store.write() as tx:
        await tx[ClusterStore].remove("none")
    assert said == ["BEGIN", "COMMIT"]


async def test_a_connection_that_has_ended_is_replaced(
    engine: AsyncEngine, postgres: Postgres
) -> None:
    """The server ends connections without notice, like a restart of the database."""
    ends = []
    event.listen(engine.sync_engine, "connect", lambda one, _: ends.append(one.driver_connection))
    store = SqlStore(engine, REPOSITORIES)
    await count(store)
    await asyncio.to_thread(
        postgres.execute,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        f"WHERE datname = '{engine.url.database}'",
    )
    while not ends[0].is_closed():
        await asyncio.sleep(0.01)
    assert await count(store) == 0
    assert len(ends) == 2


async def test_one_that_was_idle_for_long_is_asked_before(
    engine: AsyncEngine, said: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engines, "IDLE_S", 0.0)
    store = SqlStore(engine, REPOSITORIES)
    await count(store)
    said.clear()
    await count(store)
    assert said == ["BEGIN", "", "ROLLBACK"]
