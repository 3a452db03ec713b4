"""Checks of the database of an installation: its server, writes, room, connections and clock.

They leave nothing behind: the check of writes rolls its transaction back.
"""

import shutil
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import text
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controlplane.platform.store.engine import READ_ONLY
from core.runtime.clock import Clock
from towline.installation.check_result import CheckHealth, CheckResult, Finding

_MIN_FREE_BYTES = 1 << 30
_CONNECTIONS_OF_REPLICA = 20
_MAX_SKEW = timedelta(seconds=2)
_PROBE = "CREATE TABLE towline_doctor (id INTEGER)"
_NAMES = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
_VERSION = {"sqlite": "SELECT sqlite_version()", "postgresql": "SHOW server_version"}
_SIZE = {
    "sqlite": "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()",
    "postgresql": "SELECT pg_database_size(current_database())",
}
_NOW = "SELECT clock_timestamp()"
_CONNECTIONS = """SELECT (SELECT count(*) FROM pg_stat_activity WHERE backend_type =
'client backend'), current_setting('max_connections')::int
- current_setting('superuser_reserved_connections')::int"""

_Check = Callable[[AsyncConnection], Awaitable[Finding]]


async def check_database(engine: AsyncEngine, data: Path, clock: Clock) -> list[CheckResult]:
    """Runs all checks of a database that answers. `data` is the folder of an embedded one."""
    checks: dict[str, _Check] = {"server": _check_server, "writes": _check_writes}
    if engine.dialect.name == "sqlite":
        checks["room"] = lambda connection: _check_room(connection, data)
    else:
        checks["size"] = _check_size
        checks["connections"] = _check_connections
        checks["clock"] = lambda connection: _check_clock(connection, clock)
    return [await _run(engine, name, check) for name, check in checks.items()]


async def _run(engine: AsyncEngine, name: str, check: _Check) -> CheckResult:
    """Runs a check on a connection of its own, because a failed statement ends a transaction."""
    try:
        async with engine.connect() as connection:
            if check is not _check_writes:
                options: Mapping[str, object] = READ_ONLY[engine.dialect.name]
                connection = await connection.execution_options(**options)
            return CheckResult(name, *await check(connection))
    except (OSError, SQLAlchemyError) as error:
        return CheckResult(name, CheckHealth.FAILED, _reason(error))


async def _check_server(connection: AsyncConnection) -> Finding:
    name = connection.dialect.name
    version = (await connection.execute(text(_VERSION[name]))).scalar_one()
    return Finding(CheckHealth.OK, f"{_NAMES[name]} {version}")


async def _check_writes(connection: AsyncConnection) -> Finding:
    """Creates a table, as migrations do, and a row; then undoes both."""
    try:
        await connection.execute(text(_PROBE))
        await connection.execute(text("INSERT INTO towline_doctor VALUES (1)"))
    except DBAPIError as error:
        advice = "check the disk, the permissions of the user, and that it is no read-only replica"
        return Finding(CheckHealth.FAILED, f"{_reason(error)}: {advice}")
    finally:
        await connection.rollback()
    return Finding(CheckHealth.OK, "tables and rows can be written")


async def _check_room(connection: AsyncConnection, data: Path) -> Finding:
    return judge_room(await _size(connection), shutil.disk_usage(data).free, data)


async def _check_size(connection: AsyncConnection) -> Finding:
    return Finding(CheckHealth.OK, _gib(await _size(connection)))


async def _check_connections(connection: AsyncConnection) -> Finding:
    used, limit = (await connection.execute(text(_CONNECTIONS))).one()
    return judge_connections(used, limit)


async def _check_clock(connection: AsyncConnection, clock: Clock) -> Finding:
    """Compares the clocks in the middle of a request, so that a slow network is no skew."""
    before = clock.now()
    server: datetime = (await connection.execute(text(_NOW))).scalar_one()
    half = (clock.now() - before) / 2
    return judge_skew(abs(server - (before + half)) - half)


def judge_room(size: int, free: int, data: Path) -> Finding:
    """Judges the free bytes beside SQLite, whose migrations and compactions write a second file."""
    needed = max(_MIN_FREE_BYTES, size)
    message = f"{_gib(size)} in towline.db, {_gib(free)} free in {data}"
    if free >= needed:
        return Finding(CheckHealth.OK, message)
    return Finding(CheckHealth.FAILED, f"{message}: {_gib(needed)} must be free")


def judge_connections(used: int, limit: int) -> Finding:
    """Judges whether another replica finds enough connections."""
    message = f"{used} of {limit} connections are used"
    if limit - used >= _CONNECTIONS_OF_REPLICA:
        return Finding(CheckHealth.OK, message)
    advice = f"a replica needs up to {_CONNECTIONS_OF_REPLICA}: raise max_connections"
    return Finding(CheckHealth.WARNING, f"{message}; {advice}")


def judge_skew(skew: timedelta) -> Finding:
    """Judges the difference between the clocks, which is at least this long."""
    message = f"the clock of the database differs by {max(0.0, skew.total_seconds()):.1f} s"
    if skew <= _MAX_SKEW:
        return Finding(CheckHealth.OK, message)
    advice = "synchronize the clocks of both machines with NTP"
    return Finding(CheckHealth.WARNING, f"{message}: {advice}")


async def _size(connection: AsyncConnection) -> int:
    query = _SIZE[connection.dialect.name]
    return int((await connection.execute(text(query))).scalar_one())


def _gib(size: int) -> str:
    return f"{size / (1 << 30):.1f} GiB"


def _reason(error: Exception) -> str:
    """The first line of the driver's message, without the statement."""
    cause = error.orig if isinstance(error, DBAPIError) else error
    return str(cause).splitlines()[0] if str(cause) else type(error).__name__
