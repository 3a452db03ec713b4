"""One SQLite file in WAL mode, and the handling of disk errors.
`synchronous=NORMAL`: a killed process loses nothing. A power cut may lose the last moments but
leaves a consistent file, and the control plane sends the lost state again. Calls run on the event
loop: they use only the page cache and take about ten microseconds.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import structlog

from core.errors import Invalid, Unavailable

log = structlog.get_logger(__name__)

# Increase it with every change of the tables and of the values in them.
_SCHEMA_VERSION = 6
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
_COMPANIONS = ("-wal", "-shm")
_FAILURES = (sqlite3.DatabaseError, OSError)
_SCHEMA = """
CREATE TABLE trial (service_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE service (
  id TEXT PRIMARY KEY,
  desired TEXT NOT NULL,
  current TEXT,
  stamps TEXT NOT NULL
) STRICT;
CREATE TABLE object (
  api_group TEXT NOT NULL,
  kind TEXT NOT NULL,
  namespace TEXT NOT NULL,
  name TEXT NOT NULL,
  version TEXT NOT NULL,
  service_id TEXT NOT NULL,
  uid TEXT NOT NULL,
  applied TEXT NOT NULL,
  live TEXT NOT NULL,
  resource_version INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (api_group, kind, namespace, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX object_by_service ON object (service_id);
CREATE TABLE run (service_id TEXT PRIMARY KEY, body TEXT NOT NULL) STRICT;
CREATE TABLE report (
  position INTEGER PRIMARY KEY AUTOINCREMENT,
  number INTEGER UNIQUE,
  topic TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  body BLOB NOT NULL
) STRICT;
CREATE INDEX report_waiting ON report (topic) WHERE number IS NULL;
CREATE TABLE command (
  id TEXT PRIMARY KEY,
  outcome TEXT NOT NULL,
  message TEXT NOT NULL
) STRICT;
CREATE TABLE job (
  id TEXT PRIMARY KEY,
  spec TEXT NOT NULL,
  status TEXT NOT NULL,
  final INTEGER NOT NULL
) STRICT;
CREATE TABLE accepted_order (
  service_id TEXT PRIMARY KEY,
  generation INTEGER NOT NULL,
  fence TEXT NOT NULL,
  until INTEGER
) STRICT;
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES ('reports', 0);
"""


class Database:
    """The database connection. `disk_error`: error of the last transaction, empty if it succeeded.
    A damaged file is renamed to `agent.db.damaged`, and the agent starts as after a lost disk.
    Unavailable: the disk failed. Invalid: a newer version has written the file.
    """

    def __init__(self, path: Path) -> None:
        self.disk_error = ""
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = _open(path)
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        except _FAILURES as error:
            raise _named(error) from error
        if version > _SCHEMA_VERSION:
            self._connection.close()
            raise Invalid(
                f"{path} was written by a newer version of the agent (schema {version}, supported "
                f"is {_SCHEMA_VERSION}): run that version, or move the file away to start empty"
            )
        if version < _SCHEMA_VERSION:
            self._create()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """Runs one transaction. Unavailable: the disk failed (full, read-only, broken)."""
        try:
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield self._connection
            except BaseException:
                self._connection.execute("ROLLBACK")
                raise
            self._commit()
        except _FAILURES as error:
            failure = _named(error)
            self.disk_error = failure.message
            raise failure from error
        self.disk_error = ""

    def rows(self, query: str, *values: object) -> list[tuple]:
        """Returns the rows of a query."""
        try:
            return self._connection.execute(query, values).fetchall()
        except _FAILURES as error:
            raise _named(error) from error

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _create(self) -> None:
        """Creates the tables; drops those of an older version, as after a lost disk."""
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND sql <> ''")
        with self.transaction() as db:
            for (name,) in names:
                if not name.startswith("sqlite_"):
                    db.execute(f"DROP TABLE {name}")
            for statement in _SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")


def _open(path: Path) -> sqlite3.Connection:
    """Opens a connection to an undamaged file."""
    try:
        return _checked(path)
    except sqlite3.DatabaseError as error:
        if (error.sqlite_errorcode or 0) & 0xFF not in _DAMAGED:
            raise
        log.error(
            "the agent's state is damaged; starting with an empty one",
            file=str(path),
            error=str(error),
        )
    _move_aside(path)
    return _checked(path)


def _checked(path: Path) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA synchronous=NORMAL")
        connection.execute("PRAGMA cache_size=-512")
        # A checkpoint flushes the disk and blocks everything: after 16 MB instead of 4 MB.
        connection.execute("PRAGMA wal_autocheckpoint=4000")
        (finding,) = connection.execute("PRAGMA quick_check(1)").fetchone()
        if finding != "ok":
            error = sqlite3.DatabaseError(finding)
            error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
            raise error
    except BaseException:
        connection.close()
        raise
    return connection


def _move_aside(path: Path) -> None:
    """Keeps the damaged file for analysis, without its companion files."""
    path.replace(f"{path}.damaged")
    for companion in _COMPANIONS:
        Path(f"{path}{companion}").unlink(missing_ok=True)


def _named(error: Exception) -> Unavailable:
    return Unavailable(f"the agent's state cannot be written: {error}")
