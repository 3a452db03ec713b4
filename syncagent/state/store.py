"""Services, objects and executed commands: the port `StateStore` on SQLite."""

from collections.abc import Callable, Iterable
from datetime import datetime

import orjson
import structlog

from core.errors import Invalid
from core.spec.desired import Desired
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.status import StageTimes
from syncagent.domain.observed.inventory import OwnedObject
from syncagent.ports import StoredService
from syncagent.state.database import Database
from syncagent.state.desired import dump_desired, load_desired
from syncagent.state.sync_runs import SqliteSyncRunStore
from syncagent.state.verifications import SqliteVerificationStore

log = structlog.get_logger(__name__)

_COMMANDS_KEPT = 1000


class SqliteStateStore:
    """Implements `ports.StateStore`. `check_stored` raises Invalid for desired state that is no
    longer acceptable.
    """

    def __init__(
        self, database: Database, check_stored: Callable[[Desired], None] = lambda _: None
    ) -> None:
        self._db = database
        self._check_stored = check_stored
        self.runs = SqliteSyncRunStore(database)
        self.trials = SqliteVerificationStore(database)
        self.fresh = not database.rows("SELECT 1 FROM counter WHERE name = 'recovered'")

    def mark_recovered(self) -> None:
        with self._db.transaction() as db:
            db.execute("INSERT OR REPLACE INTO counter VALUES ('recovered', 1)")
        self.fresh = False

    def load_services(self) -> list[StoredService]:
        """Returns the valid services. An invalid row is dropped; its objects stay and are found
        again by their labels.
        """
        known = []
        for service_id, *row in self._db.rows("SELECT id, desired, current, stamps FROM service"):
            try:
                service = _known(*row)
                for desired in filter(None, (service.desired, service.current)):
                    self._check_stored(desired)
                known.append(service)
            except Invalid as error:
                log.error(
                    "invalid service dropped from the state",
                    service=service_id,
                    error=error.message,
                )
                self._drop(service_id)
        return known

    def load_objects(self) -> list[OwnedObject]:
        rows = self._db.rows(
            "SELECT service_id, api_group, version, kind, namespace, name, uid, applied, live,"
            " resource_version FROM object"
        )
        return [
            OwnedObject(service, ObjectRef(*ref), uid, applied, live, version)
            for service, *ref, uid, applied, live, version in rows
        ]

    def save_desired_state(self, desired: Desired, stamps: StageTimes) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT INTO service (id, desired, stamps) VALUES (?, ?, ?)"
                " ON CONFLICT (id) DO UPDATE SET desired = excluded.desired,"
                " stamps = excluded.stamps",
                (desired.service_id, dump_desired(desired), _dump(stamps)),
            )

    def save_stage_times(self, service_id: str, stamps: StageTimes) -> None:
        with self._db.transaction() as db:
            db.execute("UPDATE service SET stamps = ? WHERE id = ?", (_dump(stamps), service_id))

    def save_apply_intent(self, current: Desired, intended: Iterable[ObjectRef]) -> None:
        with self._db.transaction() as db:
            db.execute(
                "UPDATE service SET current = ? WHERE id = ?",
                (dump_desired(current), current.service_id),
            )
            db.executemany(
                "INSERT INTO object VALUES (?, ?, ?, ?, ?, ?, '', '', '', 0)"
                " ON CONFLICT DO NOTHING",
                [(*ref.key, ref.version, current.service_id) for ref in intended],
            )

    def save_objects(self, owned: Iterable[OwnedObject], gone: Iterable[OwnedObject] = ()) -> None:
        with self._db.transaction() as db:
            db.executemany(
                "INSERT OR REPLACE INTO object VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
                [
                    (
                        *entry.key,
                        entry.ref.version,
                        entry.service_id,
                        entry.uid,
                        entry.applied,
                        entry.live,
                        entry.version,
                    )
                    for entry in owned
                ],
            )
            db.executemany(
                "DELETE FROM object"
                " WHERE api_group = ? AND kind = ? AND namespace = ? AND name = ?",
                [entry.key for entry in gone],
            )

    def delete_service(self, service_id: str) -> None:
        with self._db.transaction() as db:
            db.execute("DELETE FROM object WHERE service_id = ?", (service_id,))
            db.execute("DELETE FROM run WHERE service_id = ?", (service_id,))
            db.execute("DELETE FROM trial WHERE service_id = ?", (service_id,))
            db.execute("DELETE FROM service WHERE id = ?", (service_id,))

    def _drop(self, service_id: str) -> None:
        """Drops a service as if it had never arrived; the next start searches the cluster for its
        objects.
        """
        self.delete_service(service_id)
        with self._db.transaction() as db:
            db.execute("DELETE FROM counter WHERE name = 'recovered'")
        self.fresh = True

    def find_answer(self, command_id: str) -> CommandAnswer | None:
        rows = self._db.rows("SELECT outcome, message FROM command WHERE id = ?", command_id)
        return CommandAnswer(command_id, CommandOutcome(rows[0][0]), rows[0][1]) if rows else None

    def save_answer(self, done: CommandAnswer) -> None:
        with self._db.transaction() as db:
            db.execute(
                "INSERT OR REPLACE INTO command VALUES (?, ?, ?)",
                (done.command_id, done.outcome.value, done.message),
            )
            db.execute(
                "DELETE FROM command WHERE rowid <= (SELECT max(rowid) FROM command) - ?",
                (_COMMANDS_KEPT,),
            )


def _dump(stamps: StageTimes) -> str:
    return orjson.dumps(stamps).decode()


def _known(desired: str, current: str | None, stamps: str) -> StoredService:
    applied = load_desired(current) if current else None
    times = {
        name: datetime.fromisoformat(time) if time else None
        for name, time in orjson.loads(stamps).items()
    }
    return StoredService(load_desired(desired), applied, StageTimes(**times))
