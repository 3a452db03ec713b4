"""Stores of both dialects, migrated and empty."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.platform.store.transaction import SqlStore
from controlplane.store.repositories import REPOSITORIES
from tests import migrated


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return request.getfixturevalue("postgres_url")


@pytest.fixture(params=["sqlite", "postgres"])
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of a database that the migrations have been through."""
    if request.param == "sqlite":
        yield migrated.put_sqlite(tmp_path)
        return
    server = request.getfixturevalue("postgres")
    url = migrated.new_postgres(server)
    yield url
    server.drop_database(url)


@pytest.fixture
async def store(migrated_url: str) -> AsyncIterator[SqlStore]:
    """A migrated, empty store."""
    opened = SqlStore(make_engine(migrated_url), REPOSITORIES)
    yield opened
    await opened.close()
