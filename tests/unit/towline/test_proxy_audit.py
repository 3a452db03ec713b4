"""The proxy's audit rows under a flood, and while the store is away."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace

import pytest
from structlog.testing import capture_logs

from controlplane.access.operations import refusal_aggregation
from controlplane.audit.model.blocks import pack, unpack
from controlplane.audit.model.chains import AuditKind, ChainHead, TargetLocation
from controlplane.authorization import SYSTEM
from controlplane.platform.audit_entry import AuditEntry, AuditVerdict
from core.errors import LimitExceeded, Unavailable
from proxy.domain.access import AuthenticatedUser
from proxy.domain.attributes import read_attributes
from proxy.domain.audit import EndReason, RequestRecord
from tests.fakes.clock import FakeClock, settle
from tests.fakes.kube_proxy import ANN, CLUSTER
from towline.serve import proxy_adapters
from towline.serve.proxy_adapters import ProxyAuditLog


class Trail:
    """Rows in memory, unless it is away."""

    def __init__(self) -> None:
        self.rows: list[AuditEntry] = []
        self.commits = 0
        self.away = False

    async def append(self, entries: Iterable[AuditEntry]) -> None:
        await asyncio.sleep(0)
        if self.away:
            raise Unavailable("the store cannot be written")
        self.rows += entries
        self.commits += 1


class Stand:
    """An audit trail whose time the test moves."""

    def __init__(self) -> None:
        self.clock, self.trail = FakeClock(), Trail()
        self.audit = ProxyAuditLog(self.trail, self.clock)

    def record(
        self, source: str = "10.0.0.1:1", who: AuthenticatedUser | None = None
    ) -> RequestRecord:
        return RequestRecord(
            "0" * 32, self.clock.now(), source, "curl", "dev", "GET", upgrade=False,
            identity=who, status=200 if who else 401, reason=EndReason.DONE,
        )  # fmt: skip

    def counts(self) -> list[tuple[str, object]]:
        return [(row.source, row.detail.get("requests")) for row in self.trail.rows]


def stored(entries: list[AuditEntry]) -> list[AuditEntry]:
    """The rows that the store makes of entries."""
    head = ChainHead(AuditKind.REQUEST)
    block, _ = pack(head, [(entry, TargetLocation()) for entry in entries])
    return unpack(block, lambda row: True)


async def test_a_flood_of_strangers_becomes_two_rows_a_minute() -> None:
    """The first refusal is there at once, the others as one row with their count."""
    stand = Stand()
    stand.audit.start()
    for _ in range(1000):
        stand.audit.closed(stand.record())
    stand.audit.closed(stand.record("10.0.0.2:1"))
    await stand.clock.advance(1)
    assert stand.counts() == [("10.0.0.1", None), ("10.0.0.2", None)]
    await stand.clock.advance(60)
    assert stand.counts()[2:] == [("10.0.0.1", 999)]
    stand.audit.closed(stand.record())
    await stand.clock.advance(1)
    assert stand.counts()[3:] == [("10.0.0.1", None)]
    await stand.audit.stop()


async def test_sources_without_number_share_one_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """The owner of a network has any number of addresses."""
    monkeypatch.setattr(refusal_aggregation, "MAX_SOURCES", 2)
    stand = Stand()
    for number in range(100):
        stand.audit.closed(stand.record(f"[2001:db8::{number:x}]:1"))
    await stand.audit.stop()
    assert [count for _, count in stand.counts()] == [None, None, None, 97]
    assert stand.trail.rows[-1].source == refusal_aggregation.OTHER_SOURCES


async def test_users_requests_are_listed_one_by_one() -> None:
    """Known users answer for each request."""
    stand = Stand()
    for _ in range(5):
        stand.audit.closed(stand.record(who=ANN))
    await stand.audit.stop()
    assert [row.actor for row in stand.trail.rows] == ["ann"] * 5


async def test_a_row_names_user_token_cluster_and_request() -> None:
    stand = Stand()
    attributes = read_attributes("DELETE", "/api/v1/namespaces/a/pods/b")
    record = replace(stand.record(who=ANN), cluster_id=CLUSTER, attributes=attributes)
    stand.audit.closed(replace(record, seconds=0.25, bytes_in=3, bytes_out=7))
    await stand.audit.stop()
    assert stand.trail.rows == [
        AuditEntry(
            at=stand.clock.now(),
            actor="ann",
            actor_id="u1",
            token_id="t1",
            source="10.0.0.1",
            action="kubernetes.delete",
            verdict=AuditVerdict.ALLOWED,
            target=f"dev: {attributes.text}",
            target_id=CLUSTER,
            status=200,
            request_id="0" * 32,
            detail={
                "user_agent": "curl",
                "bytes_in": 3,
                "bytes_out": 7,
                "reason": "done",
                "seconds": 0.25,
            },
        )
    ]


async def test_a_row_is_no_longer_than_its_columns() -> None:
    """Handle, method, source and id come from a client."""
    stand = Stand()
    record = replace(stand.record(f"{'s' * 400}:1"), method="M" * 400, handle="h" * 400)
    stand.audit.closed(replace(record, id="1" * 400))
    await stand.audit.stop()
    (row,) = stand.trail.rows
    lengths = [len(text) for text in (row.source, row.action, row.target, row.request_id)]
    assert lengths == [64, 128, 320, 64]


async def test_a_users_flood_of_refusals_is_counted() -> None:
    """The first 60 of a minute are listed, those after them are one row, also at the end."""
    stand = Stand()
    stand.audit.start()
    refusal = replace(stand.record(who=ANN), status=429, refused=True, reason=EndReason.REFUSED)
    for _ in range(100):
        stand.audit.closed(refusal)
    await stand.clock.advance(1)
    assert [row.verdict for row in stand.trail.rows] == [AuditVerdict.REFUSED] * 60
    await stand.clock.advance(60)
    counted = stand.trail.rows[-1]
    assert (counted.actor, counted.source, counted.detail["requests"]) == ("ann", "10.0.0.1", 40)
    for _ in range(70):
        stand.audit.closed(refusal)
    await stand.audit.stop()
    assert stand.counts()[-1] == ("10.0.0.1", 10)


async def test_refusals_of_a_cluster_and_broken_requests_are_listed_one_by_one() -> None:
    """The proxy itself has refused neither."""
    stand = Stand()
    by_cluster = replace(stand.record(who=ANN), status=403)
    broken = replace(stand.record(who=ANN), refused=True)
    for record in [by_cluster, broken] * 70:
        stand.audit.closed(record)
    await stand.audit.stop()
    assert [row.verdict for row in stand.trail.rows] == [AuditVerdict.ALLOWED] * 140


async def test_requests_that_differ_in_their_ends_alone_have_their_own_rows() -> None:
    """The same as if each had ended by itself."""
    ends = [("a" * 32, 0.25, 7), ("b" * 32, 3.0000004, 9)]
    separate, together = Stand(), Stand()
    for id, seconds, size in ends:
        record = separate.record(who=ANN)
        separate.audit.closed(replace(record, id=id, seconds=seconds, bytes_out=size))
    together.audit.repeated(together.record(who=ANN), ends)
    for stand in (separate, together):
        await stand.audit.stop()
    assert stored(together.trail.rows) == stored(separate.trail.rows)
    assert [row.request_id for row in stored(together.trail.rows)] == [id for id, _, _ in ends]


async def test_rows_wait_for_the_store_up_to_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond it rows are dropped and counted, writes are refused, memory stays as it is."""
    monkeypatch.setattr(proxy_adapters, "MAX_WAITING_ROWS", 10)
    stand = Stand()
    stand.trail.away = True
    stand.audit.start()
    for _ in range(25):
        stand.audit.closed(stand.record(who=ANN))
        await stand.clock.advance(1)
    with pytest.raises(LimitExceeded):
        await stand.audit.opened(stand.record(who=ANN))
    stand.trail.away = False
    await stand.clock.advance(1)
    *kept, lost = stand.trail.rows
    assert [row.actor for row in kept] == ["ann"] * 10
    assert (lost.action, lost.detail) == ("audit.dropped", {"rows": 15})
    assert (lost.actor_id, lost.target) == (SYSTEM.id, "requests to clusters")
    await stand.audit.opened(stand.record(who=ANN))
    await stand.audit.stop()
    assert len(stand.trail.rows) == 12


async def test_a_flood_of_requests_is_written_before_the_queue_is_full() -> None:
    """At full speed more requests end within one interval than may wait."""
    stand = Stand()
    stand.audit.start()
    ends = [(f"{number:032x}", 0.1, number) for number in range(500)]
    for _ in range(100):
        stand.audit.repeated(stand.record(who=ANN), ends)
        await settle()
    await stand.audit.stop()
    assert sum(row.row_count for row in stand.trail.rows) == 50_000
    assert stand.trail.commits < 10


async def test_a_store_that_does_not_answer_is_asked_twice_a_second() -> None:
    stand = Stand()
    stand.trail.away = True
    stand.audit.start()
    ends = [(f"{number:032x}", 0.1, number) for number in range(500)]
    with capture_logs() as logs:
        for _ in range(30):
            stand.audit.repeated(stand.record(who=ANN), ends)
            await settle()
        await stand.clock.advance(2)
    assert 1 < len(logs) < 6
    stand.trail.away = False
    await stand.audit.stop()
    assert sum(row.row_count for row in stand.trail.rows) == 15_000


async def test_repeated_requests_fill_the_queue_with_their_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(proxy_adapters, "MAX_WAITING_ROWS", 10)
    stand = Stand()
    stand.trail.away = True
    stand.audit.start()
    ends = [(f"{number:032x}", 0.1, number) for number in range(7)]
    for _ in range(3):
        stand.audit.repeated(stand.record(who=ANN), ends)
        await stand.clock.advance(1)
    with pytest.raises(LimitExceeded):
        await stand.audit.opened(stand.record(who=ANN))
    stand.trail.away = False
    await stand.audit.stop()
    *kept, lost = stored(stand.trail.rows)
    assert [int(row.request_id, 16) for row in kept] == [*range(7), *range(3)]
    assert lost.detail == {"rows": 11}


async def test_writes_that_start_together_share_a_commit() -> None:
    """Each has its row before it starts, and none waits for a commit of its own."""
    stand = Stand()
    records = [stand.record(f"10.0.0.{number}:1", ANN) for number in range(100)]
    await asyncio.gather(*(stand.audit.opened(record) for record in records))
    assert [f"{row.source}:1" for row in stand.trail.rows] == [one.source for one in records]
    assert stand.trail.commits <= 3


async def test_no_write_starts_without_its_row() -> None:
    stand = Stand()
    stand.trail.away = True
    starting = [stand.audit.opened(stand.record(who=ANN)) for _ in range(10)]
    for outcome in await asyncio.gather(*starting, return_exceptions=True):
        assert isinstance(outcome, Unavailable)
