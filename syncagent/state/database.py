"""One SQLite file in WAL mode, and what happens when its disk refuses.

`synchronous=NORMAL`: a killed process loses nothing; a power cut may lose the last moments but
leaves a whole file, and what was lost is told again by the control plane. Calls are made on the
event loop: they touch the page cache only and take some ten microseconds.
"""

import sqlite3
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from fleet.errors import Unavailable

_SCHEMA_VERSION = 2
_SCHEMA = """
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
CREATE TABLE counter (name TEXT PRIMARY KEY, value INTEGER NOT NULL) STRICT;
INSERT INTO counter VALUES ('reports', 0);
"""


class Database:
    """The connection. `refusal` says why the last transaction was refused, empty if it was not."""

    def __init__(self, path: Path) -> None:
        self.refusal = ""
        with _named_failures():
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._connection = sqlite3.connect(path, isolation_level=None)
        with _named_failures():
            self._connection.execute("PRAGMA journal_mode=WAL")
            self._connection.execute("PRAGMA synchronous=NORMAL")
            self._connection.execute("PRAGMA cache_size=-2000")
            version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version == 1:
            self._discard()
        if version < _SCHEMA_VERSION:
            self._create()

    def close(self) -> None:
        self._connection.close()

    @contextmanager
    def transaction(self) -> Generator[sqlite3.Connection]:
        """All or nothing. Unavailable: the disk refuses (full, read-only, broken)."""
        try:
            with _named_failures():
                self._connection.execute("BEGIN IMMEDIATE")
                try:
                    yield self._connection
                except BaseException:
                    self._connection.execute("ROLLBACK")
                    raise
                self._commit()
        except Unavailable as error:
            self.refusal = error.message
            raise
        self.refusal = ""

    def rows(self, query: str, *values: object) -> list[tuple]:
        """The result of a query."""
        with _named_failures():
            return self._connection.execute(query, values).fetchall()

    def _commit(self) -> None:
        try:
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def _discard(self) -> None:
        """Begin anew, as after a lost disk: version 1 was never given to anybody to keep."""
        names = self.rows("SELECT name FROM sqlite_master WHERE type = 'table' AND sql <> ''")
        with self.transaction() as db:
            for (name,) in names:
                if not name.startswith("sqlite_"):
                    db.execute(f"DROP TABLE {name}")

    def _create(self) -> None:
        with self.transaction() as db:
            for statement in _SCHEMA.split(";\n"):
                db.execute(statement)
            db.execute(f"PRAGMA user_version={_SCHEMA_VERSION}")


@contextmanager
def _named_failures() -> Generator[None]:
    try:
        yield
    except (sqlite3.OperationalError, sqlite3.DatabaseError, OSError) as error:
        raise Unavailable(f"the agent's state cannot be written: {error}") from error
