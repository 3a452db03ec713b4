"""Migration of a store to the schema of this version; refuses a newer schema."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controlplane.storage.connection import translate_errors
from controlplane.storage.tables import metadata
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
            config = _config()
            current, wanted = await connection.run_sync(revision_of), _head(config)
            _check_known(config, current)
            if current == wanted:
                await connection.run_sync(_check_columns)
    return current, wanted


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
    return current, _head(_config())


def migrate_connection(connection: Connection, to: str = "head") -> None:
    """Applies missing migrations up to a revision, inside the connection's transaction.

    Raises Conflict if the store's revision, or the requested one, is from a newer version.
    """
    config = _config(connection)
    current, wanted = revision_of(connection), _head(config) if to == "head" else to
    _check_known(config, current, wanted)
    if current != wanted:
        try:
            command.upgrade(config, wanted)
        except DBAPIError as error:
            if not any(text in str(error.orig) for text in _SCHEMA_ERRORS):
                raise
            raise _misfit(current, str(error.orig)) from error


def revision_of(connection: Connection) -> str | None:
    """Returns the revision of the current schema; None: the store is empty."""
    return MigrationContext.configure(connection).get_current_revision()


def _check_known(config: Config, *revisions: str | None) -> None:
    script = ScriptDirectory.from_config(config)
    known = {revision.revision for revision in script.walk_revisions()}
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
        said = connection.exec_driver_sql("PRAGMA quick_check(1)").scalar() if is_small else "ok"
    except DBAPIError as error:
        if "malformed" not in str(error.orig):
            raise
        said = str(error.orig)
    if said != "ok":
        raise Invalid(f"the store is damaged ({' '.join(str(said).split())}): restore a backup")


def _check_columns(connection: Connection) -> None:
    """Detects missing columns now, after manual changes or an interrupted migration."""
    there = {tuple(row) for row in connection.exec_driver_sql(_COLUMNS[connection.dialect.name])}
    needed = {(table.name, column.name) for table in metadata.sorted_tables for column in table.c}
    if absent := sorted(needed - there):
        names = ", ".join(f"{table}.{column}" for table, column in absent[:3])
        raise _misfit(revision_of(connection), f"{names} is missing")


def _misfit(revision: str | None, why: str) -> Invalid:
    return Invalid(
        f"the store says that it has schema {revision}, and is not like that ({why}): a migration "
        "was broken off, or something else has changed it. Restore a backup"
    )


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    return config


def _head(config: Config) -> str:
    head = ScriptDirectory.from_config(config).get_current_head()
    if head is None:
        raise RuntimeError("no migrations were found: the installation is incomplete")
    return head
