"""State of bundle verifications: the port `VerificationStore` on SQLite."""

from collections.abc import Iterator
from dataclasses import asdict, replace

import orjson
import structlog

from core.errors import Invalid
from syncagent.domain.verification import BundleVerification
from syncagent.state.database import Database
from syncagent.state.desired import dump_desired, load_desired

log = structlog.get_logger(__name__)


class SqliteVerificationStore:
    """Implements `ports.VerificationStore`."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def get(self, service_id: str) -> BundleVerification | None:
        rows = self._db.rows("SELECT body FROM trial WHERE service_id = ?", service_id)
        return _load(rows[0][0]) if rows else None

    def all(self) -> Iterator[BundleVerification]:
        for (body,) in self._db.rows("SELECT body FROM trial"):
            if (trial := _load(body)) is not None:
                yield trial

    def keep(self, trial: BundleVerification) -> None:
        raw = asdict(replace(trial, good=None))
        raw["good"] = dump_desired(trial.good) if trial.good is not None else None
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO trial VALUES (?, ?)",
                (trial.service_id, orjson.dumps(raw).decode()),
            )


def _load(body: str) -> BundleVerification | None:
    """Decodes a verification; None if it is damaged, so that the verification starts again."""
    raw = orjson.loads(body)
    good = raw.pop("good")
    try:
        return BundleVerification(**raw, good=load_desired(good) if good else None)
    except Invalid as error:
        log.error("damaged verification dropped from the state", reason=error.message)
        return None
