"""Progress of syncs with hooks or waves: the port `Runs` on SQLite."""

import orjson

from syncagent.domain.objects import ObjectRef
from syncagent.domain.runs import Run
from syncagent.state.database import Database


class SqliteRuns:
    """Implements `ports.Runs`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, service_id: str) -> Run | None:
        rows = self._db.rows("SELECT body FROM run WHERE service_id = ?", service_id)
        if not rows:
            return None
        raw = orjson.loads(rows[0][0])
        made = {name: ObjectRef(**ref) for name, ref in raw.pop("made").items()}
        return Run(**raw, made=made)

    def keep(self, run: Run) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO run VALUES (?, ?)",
                (run.service_id, orjson.dumps(run).decode()),
            )
