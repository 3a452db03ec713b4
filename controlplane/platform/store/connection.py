"""A database connection whose steps are never interrupted.

When an agent or a browser disconnects, its work is cancelled. A driver that is cancelled in the
middle of a statement loses its connection. Here each step ends first; then the cancellation takes
effect.
"""

import os
from collections.abc import AsyncGenerator, Callable, Generator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

from sqlalchemy import CursorResult, Executable, UpdateBase
from sqlalchemy.exc import DataError, DBAPIError, IntegrityError, ProgrammingError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine

from controlplane.platform.ports import TransactionConflict
from controlplane.platform.store.engine import READ_ONLY
from controlplane.platform.store.remembered import RememberedReads
from controlplane.platform.store.touches import RowTracker
from core.errors import Invalid, Unavailable
from core.runtime.tasks import run_to_completion

ErrorTranslation = Callable[[IntegrityError], Exception]
"""Returns the error of a write that the database refuses."""
_MAX_LATER = 1_000
# PostgreSQL's error codes. Class 22: the value is at fault, not the database.
_DATA_EXCEPTION = "22"
_COLLISIONS = ("40P01", "40001")
_RETRY_S = 1.0
# SQLite's messages about an unreadable file.
_DAMAGED = ("image is malformed", "is not a database")


@dataclass(slots=True)
class _LaterWrites:
    """Rows for one statement that was not run yet."""

    statement: Executable
    rows: list[Mapping[str, object]]
    translate: ErrorTranslation


class StoreConnection:
    """The part of SQLAlchemy's connection that the store uses."""

    def __init__(self, connection: AsyncConnection, *, read_only: bool) -> None:
        self._connection = connection
        self.dialect = connection.dialect.name
        self.read_only = read_only
        self.touches = RowTracker()
        self.reads = RememberedReads(enabled=self.dialect == "sqlite" and not read_only)
        self._later: _LaterWrites | None = None

    async def execute(
        self,
        statement: Executable,
        rows: Sequence[Mapping[str, object]] | Mapping[str, object] | None = None,
        *,
        id: str | None = None,
    ) -> CursorResult[Any]:
        """Runs one statement, once or for each of `rows`; `id` is the only row that it writes.

        RuntimeError: it writes in a read-only transaction.
        """
        if self.read_only and isinstance(statement, UpdateBase):
            raise RuntimeError("a read-only transaction cannot write: open it with store.write()")
        await self.write_later_rows()
        try:
            return await run_to_completion(self._connection.execute(statement, rows))
        finally:
            self.reads.invalidate(statement, id)

    async def execute_later(
        self, statement: Executable, row: Mapping[str, object], translate: ErrorTranslation
    ) -> None:
        """Runs a statement that writes one row, together with the next ones of the same form.

        They run before any other statement, and before the commit.
        """
        later = self._later
        if later is None or later.statement is not statement or len(later.rows) == _MAX_LATER:
            await self.write_later_rows()
            self._later = _LaterWrites(statement, [row], translate)
        else:
            later.rows.append(row)

    async def write_later_rows(self) -> None:
        """Writes the rows of `execute_later`. Raises the translated error."""
        later, self._later = self._later, None
        if later is not None:
            try:
                await run_to_completion(self._connection.execute(later.statement, later.rows))
            except IntegrityError as error:
                raise later.translate(error) from error

    async def execute_text(self, statement: str, rows: Sequence[tuple[Any, ...]]) -> None:
        """Runs one SQL text through the driver, for each of `rows`."""
        await self.write_later_rows()
        try:
            await run_to_completion(self._connection.exec_driver_sql(statement, list(rows)))
        finally:
            self.reads.invalidate_all()


@asynccontextmanager
async def transaction(
    engine: AsyncEngine, *, read_only: bool
) -> AsyncGenerator[StoreConnection, None]:
    """Opens a transaction that commits at the end of the block unless the block raises."""
    connection = engine.connect()
    try:
        await run_to_completion(_begin_transaction(connection, read_only))
        opened = StoreConnection(connection, read_only=read_only)
        yield opened
        if not read_only:
            await opened.write_later_rows()
            await run_to_completion(connection.commit())
    finally:
        if connection.sync_connection is not None:
            await run_to_completion(connection.close())


@contextmanager
def translate_errors(action: str) -> Generator[None, None, None]:
    """Translates database errors.

    Raises Unavailable for an unreachable, full or broken database; the message says that it cannot
    be `action`, such as `read`. Raises TransactionConflict for a serialization failure or deadlock,
    and Invalid for a value that cannot be stored. Errors in our own statements stay unchanged.
    """
    try:
        yield
    except (IntegrityError, ProgrammingError, DataError):
        raise
    except DBAPIError as error:
        state = str(getattr(error.orig, "sqlstate", ""))
        if state in _COLLISIONS:
            message = (
                f"the store cannot be {action}: another transaction changed the same rows; "
                "try again"
            )
            raise TransactionConflict(message, retry_after=_RETRY_S) from error
        if state.startswith(_DATA_EXCEPTION):
            raise Invalid(
                "a value is too long, or contains characters that the store cannot keep"
            ) from error
        message = f"the store cannot be {action}: {error.orig}"
        is_damaged = any(text in message for text in _DAMAGED)
        raise Unavailable(f"{message}: restore a backup" if is_damaged else message) from error
    except (OSError, PoolTimeout) as error:
        # PostgreSQL's driver passes socket errors through unchanged.
        number = error.errno if isinstance(error, OSError) else None
        reason = os.strerror(number) if number and number > 0 else error
        hint = ": check the setting database, and that PostgreSQL accepts connections"
        raise Unavailable(
            f"the store cannot be {action}: {reason}{hint if action == 'opened' else ''}"
        ) from error


async def _begin_transaction(connection: AsyncConnection, read_only: bool) -> None:
    await connection.start()
    if read_only:
        await connection.execution_options(**READ_ONLY[connection.dialect.name])
    await connection.begin()
