"""Stores of both dialects, migrated and empty."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controlplane.storage.engine import make_engine, sqlite_url
from controlplane.storage.migrate import migrate
from controlplane.storage.store import SqlStore


@pytest.fixture(params=["sqlite", "postgres"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty database."""
    if request.param == "sqlite":
        return sqlite_url(tmp_path)
    return request.getfixturevalue("postgres_url")


@pytest.fixture
async def store(store_url: str) -> AsyncIterator[SqlStore]:
    """A migrated, empty store."""
    engine = make_engine(store_url)
    await migrate(engine)
    opened = SqlStore(engine)
    yield opened
    await opened.close()
