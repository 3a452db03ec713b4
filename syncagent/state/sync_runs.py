"""Progress of syncs with hooks or waves: the port `SyncRunStore` on SQLite."""

import orjson

from core.spec.objects import ObjectRef
from syncagent.domain.sync_run import SyncRun
from syncagent.state.database import Database


class SqliteSyncRunStore:
    """Implements `ports.SyncRunStore`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, service_id: str) -> SyncRun | None:
        rows = self._db.rows("SELECT body FROM run WHERE service_id = ?", service_id)
        if not rows:
            return None
        raw = orjson.loads(rows[0][0])
        made = {name: ObjectRef(**ref) for name, ref in raw.pop("made").items()}
        return SyncRun(**raw, made=made)

    def keep(self, run: SyncRun) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO run VALUES (?, ?)",
                (run.service_id, orjson.dumps(run).decode()),
            )
