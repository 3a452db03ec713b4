"""Stores of all implementations, migrated and empty: SQLite, PostgreSQL and the one in memory."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controlplane.platform.ports import Store
from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from tests import migrated
from tests.fakes.memory_store.store import MemoryStore

_SQL = ("sqlite", "postgres")


@pytest.fixture(params=_SQL)
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return request.getfixturevalue("postgres_url")


@pytest.fixture
def postgres_store_url(request: pytest.FixtureRequest) -> Iterator[str]:
    """The URL of a migrated database of PostgreSQL."""
    server = request.getfixturevalue("postgres")
    url = migrated.new_postgres(server)
    yield url
    server.drop_database(url)


@pytest.fixture(params=_SQL)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of a database that the migrations have been through."""
    return _migrated(request, tmp_path)


def _migrated(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return migrated.put_sqlite(tmp_path)
    return request.getfixturevalue("postgres_store_url")


@pytest.fixture
async def sql_store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A migrated, empty store in a database, for cases about SQL itself."""
    opened = SqlStore(make_engine(migrated_url), REPOSITORIES)
    yield opened
    await opened.close()


@pytest.fixture(params=[*_SQL, "memory"])
async def store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Store]:
    """A migrated, empty store of each implementation."""
    if request.param == "memory":
        yield MemoryStore()
        return
    opened = SqlStore(make_engine(_migrated(request, tmp_path)), REPOSITORIES)
    yield opened
    await opened.close()
