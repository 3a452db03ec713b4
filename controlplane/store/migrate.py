"""Migration of a store to the schema of this version; refuses a newer schema."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from sqlalchemy import Connection
from sqlalchemy import inspect as inspect_schema
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controlplane.platform.store.connection import translate_errors
from controlplane.store.repositories import SCHEMA
from core.errors import Conflict, Invalid

REVISIONS = "alembic_version"
"""Table that holds the schema's revision."""

_FOLDER = Path(__file__).parent / "migrations"
# Checking a larger file takes seconds, and would delay the start.
_MAX_CHECKED_BYTES = 256 << 20
_SCHEMA_ERRORS = (
    "duplicate column",
    "already exists",
    "no such table",
    "no such column",
    "not exist",
)
_COLUMNS = {
    "sqlite": "SELECT m.name, c.name FROM sqlite_master m JOIN pragma_table_info(m.name) c"
    " WHERE m.type = 'table'",
    "postgresql": "SELECT table_name, column_name FROM information_schema.columns"
    " WHERE table_schema = current_schema()",
}


async def migrate(engine: AsyncEngine) -> None:
    """Applies missing migrations, then verifies the schema.

    Raises Conflict if a newer version wrote the store, Invalid if the store is damaged or does not
    match its schema, Unavailable if it cannot be reached.
    """
    with translate_errors("opened"):
        async with changing_schema(engine) as connection:
            await connection.run_sync(_check_pages)
            await connection.run_sync(migrate_connection)
            await connection.run_sync(_check_columns)


async def inspect(engine: AsyncEngine) -> tuple[str | None, str]:
    """Returns the `revisions` of a store. Raises as `migrate` does, and changes nothing."""
    with translate_errors("opened"):
        async with engine.connect() as connection:
            await connection.run_sync(_check_pages)
            current, newest = await connection.run_sync(revision_of), known_revisions()[-1]
            _check_known_revisions(current)
            if current == newest:
                await connection.run_sync(_check_columns)
    return current, newest


@asynccontextmanager
async def changing_schema(engine: AsyncEngine) -> AsyncGenerator[AsyncConnection, None]:
    """Opens a transaction in which tables can be recreated, as SQLite needs to change a column.

    SQLite treats dropping the old table as deleting its rows, and refuses while others reference
    them. References are therefore not enforced during the change, and checked at the end.
    """
    async with engine.connect() as connection:
        if engine.dialect.name != "sqlite":
            async with connection.begin():
                yield connection
            return
        driver: Any = (await connection.get_raw_connection()).driver_connection
        # Outside of the transaction: SQLite ignores the pragma inside one.
        await driver.execute("PRAGMA foreign_keys=OFF")
        try:
            async with connection.begin():
                yield connection
                await connection.run_sync(_check_references)
        finally:
            await driver.execute("PRAGMA foreign_keys=ON")


async def revisions(engine: AsyncEngine) -> tuple[str | None, str]:
    """Returns the store's revision (None: empty) and this version's revision."""
    async with engine.connect() as connection:
        current = await connection.run_sync(revision_of)
    return current, known_revisions()[-1]


def migrate_connection(connection: Connection, to: str = "head") -> None:
    """Applies missing migrations up to a revision, inside the connection's transaction.

    Raises Conflict if the store's revision, or the requested one, is from a newer version.
    """
    current, target = revision_of(connection), known_revisions()[-1] if to == "head" else to
    _check_known_revisions(current, target)
    if current != target:
        try:
            _upgrade(connection, target)
        except DBAPIError as error:
            if not any(text in str(error.orig) for text in _SCHEMA_ERRORS):
                raise
            raise _schema_mismatch(current, str(error.orig)) from error


def revision_of(connection: Connection) -> str | None:
    """Returns the revision of the current schema; None: the store is empty."""
    if not inspect_schema(connection).has_table(REVISIONS):
        return None
    return connection.exec_driver_sql(f"SELECT version_num FROM {REVISIONS}").scalar()


def known_revisions(folder: Path = _FOLDER) -> list[str]:
    """Returns the revisions with which the names of the migrations begin, oldest first.

    RuntimeError: `folder` has none.
    """
    revisions = sorted(
        path.name.partition("_")[0] for path in (folder / "versions").glob("[0-9]*.py")
    )
    if not revisions:
        raise RuntimeError("no migrations were found: the installation is incomplete")
    return revisions


def _upgrade(connection: Connection, to: str) -> None:
    # Few starts have to migrate, and the library takes a twelfth of the time of all imports.
    from alembic import command
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    command.upgrade(config, to)


def _check_known_revisions(*revisions: str | None) -> None:
    known = known_revisions()
    for revision in revisions:
        if revision is not None and revision not in known:
            raise Conflict(
                f"the store has schema {revision}, which this version does not know: "
                "it was written by a newer one. Start that version, or restore a backup"
            )


def _check_references(connection: Connection) -> None:
    broken = connection.exec_driver_sql("PRAGMA foreign_key_check").fetchmany(3)
    if broken:
        tables = ", ".join(sorted({row[0] for row in broken}))
        raise Invalid(f"rows of {tables} refer to missing rows: restore a backup")


def _check_pages(connection: Connection) -> None:
    """A damaged page of SQLite shows only when it is read, maybe in a month."""
    if connection.dialect.name != "sqlite":
        return
    try:
        pages = connection.exec_driver_sql("PRAGMA page_count").scalar_one()
        size = connection.exec_driver_sql("PRAGMA page_size").scalar_one()
        is_small = pages * size <= _MAX_CHECKED_BYTES
        result = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() if is_small else "ok"
    except DBAPIError as error:
        if "malformed" not in str(error.orig):
            raise
        result = str(error.orig)
    if result != "ok":
        raise Invalid(f"the store is damaged ({' '.join(str(result).split())}): restore a backup")


def _check_columns(connection: Connection) -> None:
    """Detects missing columns now, after manual changes or an interrupted migration."""
    existing = {tuple(row) for row in connection.exec_driver_sql(_COLUMNS[connection.dialect.name])}
    expected = {(table.name, column.name) for table in SCHEMA.sorted_tables for column in table.c}
    if missing := sorted(expected - existing):
        names = ", ".join(f"{table}.{column}" for table, column in missing[:3])
        raise _schema_mismatch(revision_of(connection), f"{names} is missing")


def _schema_mismatch(revision: str | None, reason: str) -> Invalid:
    return Invalid(
        f"the store says that it has schema {revision}, and is not like that ({reason}): a "
        "migration was broken off, or something else has changed it. Restore a backup"
    )
