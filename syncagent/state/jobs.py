"""Jobs of the control plane, stored until a day after their end: the port `JobStore`."""

import base64
from dataclasses import asdict
from datetime import datetime

import orjson

from core.spec.jobs import JobPhase, JobSpec, JobStatus
from core.spec.objects import ObjectRef
from core.spec.sealed_secrets import SealedSecret
from syncagent.state.database import Database


class SqliteJobStore:
    """Implements `JobStore`; secrets stay sealed."""

    def __init__(self, database: Database) -> None:
        self._db = database

    def jobs(self) -> list[tuple[JobSpec, JobStatus]]:
        rows = self._db.rows("SELECT spec, status FROM job ORDER BY rowid")
        return [(_spec(spec), _status(status)) for spec, status in rows]

    def job(self, command_id: str) -> JobStatus | None:
        rows = self._db.rows("SELECT status FROM job WHERE id = ?", command_id)
        return _status(rows[0][0]) if rows else None

    def keep(self, spec: JobSpec, status: JobStatus) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO job VALUES (?, ?, ?, ?) ON CONFLICT (id) DO UPDATE SET"
                " status = excluded.status, final = excluded.final",
                (spec.command_id, _dump(spec), _dump(status), status.phase.final),
            )

    def forget_job(self, command_id: str) -> None:
        with self._db.transaction() as db:
            db.execute("DELETE FROM job WHERE id = ?", (command_id,))


def _dump(value: JobSpec | JobStatus) -> str:
    return orjson.dumps(asdict(value), default=_bytes).decode()


def _bytes(value: object) -> str:
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    raise TypeError(type(value).__name__)


def _spec(text: str) -> JobSpec:
    raw = orjson.loads(text)
    secrets = tuple(
        SealedSecret(secret["name"], secret["version"], base64.b64decode(secret["box"]))
        for secret in raw.pop("secrets")
    )
    return JobSpec(**raw, secrets=secrets)


def _status(text: str) -> JobStatus:
    raw = orjson.loads(text)
    raw["phase"] = JobPhase(raw["phase"])
    raw["ref"] = ObjectRef(**raw["ref"]) if raw["ref"] else None
    for name in ("started_at", "finished_at"):
        raw[name] = datetime.fromisoformat(raw[name]) if raw[name] else None
    return JobStatus(**raw)
