"""Refusals reach the audit log within a second, and old entries leave it."""

from dataclasses import replace
from datetime import timedelta

from controlplane.audit.loop import RetentionLoop
from controlplane.audit.model.chains import AuditKind
from controlplane.audit.operations.audit_log import AuditLogOperations
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from tests.fakes.access import ReadOnlyStore
from tests.fakes.actors import NOBODY
from tests.fakes.clock import START
from tests.fakes.operations import MemoryOperations, operations_over_memory

HOUR = 3_600


class Retention:
    """The loop over a store that can become read-only; counts runs of `forget`."""

    def __init__(self) -> None:
        self.world: MemoryOperations = operations_over_memory()
        self.store = ReadOnlyStore(self.world.context.store)
        self.store.is_read_only = False
        self.forgot = 0
        self.audit_log = AuditLogOperations(replace(self.world.context, store=self.store))
        kept = {AuditKind.CHANGE: timedelta(minutes=90)}
        self.loop = RetentionLoop(self.audit_log, self._forget, kept, self.world.clock)

    async def _forget(self) -> None:
        self.forgot += 1

    def refuse(self) -> None:
        self.audit_log.record_refusal(NOBODY, "deleteCluster", "dev", "")

    async def actions(self) -> list[str]:
        return [action for _, action, _ in await self.world.audited()]


async def test_refusals_are_written_within_a_second_or_after_an_outage() -> None:
    retention = Retention()
    await retention.loop.start()
    retention.refuse()
    await retention.world.clock.advance(1)
    assert await retention.actions() == ["deleteCluster"]
    retention.store.is_read_only = True
    retention.refuse()
    await retention.world.clock.advance(1)
    retention.store.is_read_only = False
    await retention.world.clock.advance(5)
    assert await retention.actions() == 2 * ["deleteCluster"]
    await retention.loop.stop()


async def test_refusals_of_the_last_second_are_written_at_the_end() -> None:
    """And those of the last minute that are only counted."""
    retention = Retention()
    await retention.loop.start()
    for _ in range(62):
        retention.refuse()
    await retention.loop.stop()
    assert await retention.actions() == ["deleteCluster"] * 61


async def test_expired_entries_are_deleted_each_hour() -> None:
    """And so are old notifications."""
    retention = Retention()
    entry = AuditEntry(START, "ada@example.org", "updateCluster", AuditVerdict.ALLOWED)
    await retention.audit_log.append([entry])
    await retention.loop.start()
    await retention.world.clock.advance(HOUR)
    assert (await retention.actions(), retention.forgot) == (["updateCluster"], 1)
    await retention.world.clock.advance(HOUR)
    assert "updateCluster" not in await retention.actions()
    await retention.loop.stop()
