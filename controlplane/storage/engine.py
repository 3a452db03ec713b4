"""The one place where database engines are made.

SQLite's driver opens no transaction before a SELECT, so two read-then-write blocks would
silently lose an update; here every writing transaction starts with BEGIN IMMEDIATE. SQLite
has one writer at a time anyway, so those in this process queue on a lock instead of polling
the file.

PostgreSQL costs a round trip for each word said to it. Reads are said without a transaction: each
statement sees what is committed by then, as it would within one. A connection that was in use a
moment ago is not asked whether it still works.
"""

from pathlib import Path
from typing import Any

import orjson
from sqlalchemy import event
from sqlalchemy.engine import make_url
from sqlalchemy.exc import ArgumentError, DisconnectionError
from sqlalchemy.ext.asyncio import AsyncEngine, create_async_engine

from controlplane.storage.embedded import connecting
from fleet.errors import Invalid
from fleet.runtime.clock import SystemClock

READ_ONLY = {
    "sqlite": {"read_only": True},
    "postgresql": {"isolation_level": "AUTOCOMMIT"},
}
"""Options of a connection that only reads, by dialect."""

_IDLE_S = 20.0


def sqlite_url(folder: Path) -> str:
    """The URL of the embedded store in the data directory."""
    return f"sqlite+aiosqlite:///{folder / 'towline.db'}"


def make_engine(url: str) -> AsyncEngine:
    """An engine for `sqlite://` or `postgresql://`. Invalid: any other database."""
    try:
        parsed = make_url(url)
    except ArgumentError:
        # The URL is not shown: it may hold a password.
        raise Invalid("is not a URL like postgresql://user@host/name", field="database") from None
    backend = parsed.get_backend_name()
    options: dict[str, Any] = {"json_serializer": _dumps, "json_deserializer": _loads}
    if backend == "sqlite":
        options["async_creator"] = connecting(parsed.database or "")
        engine = create_async_engine(parsed.set(drivername="sqlite+aiosqlite"), **options)
        _prepare_sqlite(engine)
        return engine
    if backend == "postgresql":
        options |= {"pool_size": 10, "max_overflow": 10}
        engine = create_async_engine(parsed.set(drivername="postgresql+asyncpg"), **options)
        _check_idle(engine)
        return engine
    raise Invalid(f"{backend} is not supported: use sqlite or postgresql", field="database")


def _loads(text: Any) -> Any:
    """A value from its JSON. SQLite keeps a number as such: so its columns for JSON are made."""
    return text if isinstance(text, int | float) else orjson.loads(text)


def _dumps(value: Any) -> str:
    return orjson.dumps(value, option=orjson.OPT_NON_STR_KEYS).decode()


def _prepare_sqlite(engine: AsyncEngine) -> None:
    @event.listens_for(engine.sync_engine, "connect")
    def on_connect(connection: Any, _record: Any) -> None:
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


def _check_idle(engine: AsyncEngine) -> None:
    """Replace connections that have ended; whether one that was idle has is asked from the server.

    What stands between may forget idle ones without a word.
    """
    clock, dialect = SystemClock(), engine.dialect

    @event.listens_for(engine.sync_engine, "checkin")
    def on_checkin(_connection: Any, record: Any) -> None:
        record.info["idle_since"] = clock.monotonic()

    @event.listens_for(engine.sync_engine, "checkout")
    def on_checkout(connection: Any, record: Any, _proxy: Any) -> None:
        if connection.driver_connection.is_closed():
            raise DisconnectionError
        since = record.info.get("idle_since")
        if since is None or clock.monotonic() - since < _IDLE_S:
            return
        try:
            dialect.do_ping(connection)
        except dialect.loaded_dbapi.Error as error:
            raise DisconnectionError from error
