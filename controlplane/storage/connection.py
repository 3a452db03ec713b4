"""A database connection whose steps are never cut in the middle.

When an agent or a browser leaves, the work on its behalf is cancelled. A driver that is
cancelled in the middle of a statement loses its connection; here each step ends first, then
the cancellation is felt.
"""

from collections.abc import AsyncGenerator, Generator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any

from sqlalchemy import CursorResult, Executable
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controlplane.ports import Collided
from controlplane.storage.engine import READ_ONLY
from controlplane.storage.touches import Touches
from fleet.errors import Invalid, Unavailable
from fleet.runtime.tasks import finished

# PostgreSQL's error codes. Class 22: the value is at fault, not the database.
_DATA_EXCEPTION = "22"
_COLLISIONS = ("40P01", "40001")
_SOON = 1.0
# What SQLite says of a file that it cannot read at all.
_DAMAGED = ("image is malformed", "is not a database")


class Connection:
    """What the rooms of the store need of SQLAlchemy's connection."""

    def __init__(self, connection: AsyncConnection, *, read_only: bool) -> None:
        self._connection = connection
        self.dialect = connection.dialect.name
        self.read_only = read_only
        self.touches = Touches()

    async def execute(
        self, statement: Executable, rows: Sequence[dict[str, Any]] | dict[str, Any] | None = None
    ) -> CursorResult[Any]:
        """Run one statement, with the one or for each of `rows` if given."""
        return await finished(self._connection.execute(statement, rows))

    async def execute_text(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Run one statement in the database's own words, for each of `rows`, by the driver."""
        await finished(self._connection.exec_driver_sql(statement, list(rows)))


@asynccontextmanager
async def transaction(engine: AsyncEngine, *, read_only: bool) -> AsyncGenerator[Connection, None]:
    """A transaction, committed at the end of the block unless that raises."""
    connection = engine.connect()
    try:
        await finished(_begin(connection, read_only))
        yield Connection(connection, read_only=read_only)
        if not read_only:
            await finished(connection.commit())
    finally:
        if connection.sync_connection is not None:
            await finished(connection.close())


@contextmanager
def failures_named(done: str) -> Generator[None, None, None]:
    """Raise Unavailable for a database that is away, full or broken: it cannot be `done` now.

    Collided: it was given up for another one. Invalid: a value cannot be kept. Mistakes in
    statements of our own stay what they are.
    """
    try:
        yield
    except (IntegrityError, ProgrammingError, DataError):
        raise
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", ""))
        if state in _COLLISIONS:
            said = f"others change the same at once, so the store cannot be {done}: try again"
            raise Collided(said, retry_after=_SOON) from error
        if state.startswith(_DATA_EXCEPTION):
            raise Invalid("a value is too long, or holds what the store cannot keep") from error
        said = f"the store cannot be {done}: {error.orig}"
        is_damaged = any(one in said for one in _DAMAGED)
        raise Unavailable(f"{said}: restore a backup" if is_damaged else said) from error
    except (OSError, PoolTimeout) as error:
        # PostgreSQL's driver lets a socket's error through as it is.
        raise Unavailable(f"the store cannot be {done}: {error}") from error


async def _begin(connection: AsyncConnection, read_only: bool) -> None:
    await connection.start()
    if read_only:
        await connection.execution_options(**READ_ONLY[connection.dialect.name])
    await connection.begin()
