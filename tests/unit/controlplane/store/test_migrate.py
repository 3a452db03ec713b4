"""A store is migrated, or refused with the reason, before anything reads it."""

import sqlite3
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.platform.store.engine import make_engine, sqlite_url
from controlplane.store.migrate import (
    changing_schema,
    inspect,
    known_revisions,
    migrate,
    revisions,
)
from core.errors import Conflict, Invalid, TowlineError
from tests import migrated

HEAD = known_revisions()[-1]
PAGE = 4_096


@pytest.fixture
async def engine(tmp_path: Path) -> AsyncIterator[AsyncEngine]:
    """A migrated, empty store."""
    migrated.put_sqlite(tmp_path)
    engine = make_engine(sqlite_url(tmp_path))
    yield engine
    await engine.dispose()


def change(folder: Path, *statements: str) -> None:
    """Changes a store in a way that the control plane would not."""
    with sqlite3.connect(folder / "towline.db") as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


async def test_an_empty_store_is_migrated_once(tmp_path: Path) -> None:
    engine = make_engine(sqlite_url(tmp_path))
    assert await inspect(engine) == (None, HEAD)
    assert await revisions(engine) == (None, HEAD)
    for _ in range(2):
        await migrate(engine)
        assert await inspect(engine) == await revisions(engine) == (HEAD, HEAD)
    await engine.dispose()


@pytest.mark.parametrize(
    ("statement", "error", "text"),
    [
        ("UPDATE alembic_version SET version_num = '9999'", Conflict, "9999"),
        ("DROP TABLE ledger", Invalid, "ledger.actor"),
        ("ALTER TABLE clusters DROP COLUMN alarm", Invalid, "clusters.alarm is missing"),
    ],
)
async def test_a_store_of_another_schema_is_refused(
    engine: AsyncEngine, tmp_path: Path, statement: str, error: type[TowlineError], text: str
) -> None:
    """The check of an installation refuses what the start refuses."""
    change(tmp_path, statement)
    for check in (migrate, inspect):
        with pytest.raises(error, match=text):
            await check(engine)


async def test_an_interrupted_migration_is_named(engine: AsyncEngine, tmp_path: Path) -> None:
    change(tmp_path, "DELETE FROM alembic_version")
    with pytest.raises(Invalid, match="already exists.*broken off"):
        await migrate(engine)


async def test_rows_that_refer_to_missing_rows_are_refused(
    engine: AsyncEngine, tmp_path: Path
) -> None:
    """SQLite does not enforce references while the schema changes."""
    with pytest.raises(Invalid, match="rows of tokens refer to missing rows"):
        async with changing_schema(engine) as connection:
            await connection.exec_driver_sql(
                "INSERT INTO tokens (id, kind, name, hash, inserted_at, user_id, limits, source)"
                " VALUES ('t', 'user', 't', 'h', '2026-01-01', 'gone', '[]', '')"
            )
    async with engine.connect() as connection:
        assert (await connection.exec_driver_sql("SELECT * FROM tokens")).all() == []
        assert (await connection.exec_driver_sql("PRAGMA foreign_keys")).scalar() == 1


async def test_a_damaged_page_is_found(engine: AsyncEngine, tmp_path: Path) -> None:
    """Without the check, it would show when its row is read, maybe in a month."""
    await engine.dispose()
    store = tmp_path / "towline.db"
    pages = bytearray(store.read_bytes())
    with sqlite3.connect(store) as connection:
        (root,) = connection.execute(
            "SELECT rootpage FROM sqlite_master WHERE name = 'ledger'"
        ).fetchone()
    connection.close()
    pages[(root - 1) * PAGE : root * PAGE] = b"\xff" * PAGE
    store.write_bytes(pages)
    for check in (migrate, inspect):
        with pytest.raises(Invalid, match="the store is damaged.*restore a backup"):
            await check(engine)


def test_an_installation_without_migrations_is_incomplete(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="incomplete"):
        known_revisions(tmp_path)
