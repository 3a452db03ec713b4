"""Creates all database engines.

SQLite's driver opens no transaction before a SELECT, so two read-then-write blocks would silently
lose an update. Therefore every writing transaction starts with BEGIN IMMEDIATE. SQLite has one
writer at a time anyway, so the writers of this process queue on a lock instead of polling the file.

PostgreSQL costs one round trip per command. Reads run without a transaction: each statement sees
all committed data, as it would within one. A recently used connection is not checked before use.
"""

from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from controlplane.platform.store.embedded import connection_factory
from core.errors import Invalid
from core.json_object import JsonValue
from core.runtime.clock import SystemClock

READ_ONLY = {"sqlite": {"read_only": True}, "postgresql": {"isolation_level": "AUTOCOMMIT"}}
"""Options of a read-only connection, by dialect."""

IDLE_S = 20.0


def sqlite_url(folder: Path) -> str:
    """Returns the URL of the embedded store in the data directory."""
    return f"sqlite+aiosqlite:///{folder / 'towline.db'}"


def make_engine(url: str) -> AsyncEngine:
    """Creates an engine for `sqlite://` or `postgresql://`. Raises
    Invalid for any other database.
    """
    try:
        parsed = make_url(url)
    except ArgumentError:
        # The message omits the URL, because it may contain a password.
        raise Invalid("is not a URL like postgresql://user@host/name", field="database") from None
    backend = parsed.get_backend_name()
    options: dict[str, object] = {"json_serializer": _dumps}
    if backend == "sqlite":
        options["async_creator"] = connection_factory(parsed.database or "")
        engine = create_async_engine(parsed.set(drivername="sqlite+aiosqlite"), **options)
        _prepare_sqlite(engine)
        return engine
    if backend == "postgresql":
        options |= {"pool_size": 10, "max_overflow": 10}
        engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"), **options)
        _leave_json_as_text(engine)
        _check_idle(engine)
        return engine
    raise Invalid(f"{backend} is not supported: use sqlite or postgresql", field="database")


def _dumps(value: JsonValue) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def _prepare_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        connection.isolation_level = None
        cursor = connection.cursor()
        for pragma in (
            "journal_mode=WAL",
            "synchronous=NORMAL",
            "foreign_keys=ON",
            "busy_timeout=10000",
            "cache_size=-16000",
        ):
            cursor.execute(f"PRAGMA {pragma}")
        cursor.close()

    @event.listens_for(engine.sync_engine, "begin")
    def on_begin(connection: Any) -> None:
        read_only = connection.get_execution_options().get("read_only")
        connection.exec_driver_sql("BEGIN" if read_only else "BEGIN IMMEDIATE")


def _leave_json_as_text(engine: AsyncEngine) -> None:
    """Removes SQLAlchemy's decoder from new connections: columns decode, and may cache by text."""

    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: object) -> None:
        connection.run_async(lambda driver: driver.reset_type_codec("jsonb", schema="pg_catalog"))


def _check_idle(engine: AsyncEngine) -> None:
    """Replaces dead connections; the server is asked only about connections that were idle.

    Network devices may drop idle connections silently.
    """
    clock, dialect = SystemClock(), engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def on_checkin(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = clock.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def on_checkout(connection: Any, record: Any, _proxy: object) -> None:
        if connection.driver_connection.is_closed():
            raise DisconnectionError
        since = record.info.get("idle_since")
        if since is None or clock.monotonic() - since < IDLE_S:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error
