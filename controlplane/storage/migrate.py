"""Bringing a store to the schema of this version, and refusing one that is newer."""

from pathlib import Path

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import AsyncEngine

from controlplane.storage.connection import failures_named
from fleet.errors import Conflict

_FOLDER = Path(__file__).parent / "migrations"


async def migrate(engine: AsyncEngine) -> None:
    """Apply what is missing.

    Conflict: the store was written by a newer version. Unavailable: it cannot be reached.
    """
    with failures_named("opened"):
        async with engine.begin() as connection:
            await connection.run_sync(_upgrade)


async def revisions(engine: AsyncEngine) -> tuple[str | None, str]:
    """The store's revision (None: empty) and the one of this version."""
    async with engine.connect() as connection:
        current = await connection.run_sync(_current)
    return current, _head(_config())


def _upgrade(connection: Connection) -> None:
    config = _config(connection)
    current = _current(connection)
    known = {revision.revision for revision in ScriptDirectory.from_config(config).walk_revisions()}
    if current is not None and current not in known:
        raise Conflict(
            f"the store has schema {current}, which this version does not know: "
            "it was written by a newer one. Start that version, or restore a backup"
        )
    if current != _head(config):
        command.upgrade(config, "head")


def _config(connection: Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(_FOLDER))
    config.attributes["connection"] = connection
    return config


def _current(connection: Connection) -> str | None:
    return MigrationContext.configure(connection).get_current_revision()


def _head(config: Config) -> str:
    head = ScriptDirectory.from_config(config).get_current_head()
    if head is None:
        raise RuntimeError("no migrations were found: the installation is incomplete")
    return head
