"""The outbox under every order of putting, sending, acknowledging, crashing and losing the disk."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
)

from core.errors import Unavailable
from core.spec.reports.local_services import LocalServiceReport
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.reports import OutboxReports
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from tests.fakes.clock import FakeClock


class OutboxMachine(RuleBasedStateMachine):
    """A hub that commits what comes in order, and an agent whose process and disk come and go.

    Each body is a number that only grows, so that what the hub has last seen of a topic tells
    whether anything was lost or came out of order.
    """

    @initialize()
    def begin(self) -> None:
        self.folder = tempfile.TemporaryDirectory()
        self.written = 0
        self.newest: dict[str, int] = {}
        self.committed = 0
        self.seen: dict[str, int] = {}
        self.numbers: list[int] = []
        self.open()

    def open(self) -> None:
        self.database = Database(Path(self.folder.name) / "agent.db")
        self.outbox = SqliteOutbox(self.database, FakeClock())
        self.linked = False
        self.pipe: list = []

    def teardown(self) -> None:
        if hasattr(self, "database"):
            self.database.close()
            self.folder.cleanup()

    @rule(topic=st.sampled_from("abc"))
    def put(self, topic: str) -> None:
        self.written += 1
        self.newest[topic] = self.written
        self.outbox.put(topic, f"{topic}{self.written}".encode())

    @rule()
    def link(self) -> None:
        self.outbox.acknowledge(self.committed)
        self.pipe = self.outbox.sent()
        self.linked = True

    @precondition(lambda self: self.linked)
    @rule(limit=st.integers(1, 3))
    def send(self, limit: int) -> None:
        self.pipe += self.outbox.take(limit)

    @precondition(lambda self: self.pipe)
    @rule()
    def arrive(self) -> None:
        report = self.pipe.pop(0)
        if report.number > self.committed:
            assert report.number not in self.numbers
            self.numbers.append(report.number)
            self.committed = report.number
            topic, value = chr(report.body[0]), int(report.body[1:])
            assert value > self.seen.get(topic, 0)
            self.seen[topic] = value

    @precondition(lambda self: self.linked)
    @rule()
    def acknowledge(self) -> None:
        self.outbox.acknowledge(self.committed)

    @rule()
    def restart(self) -> None:
        self.database.close()
        self.open()

    @rule()
    def lose_the_disk(self) -> None:
        """Its reports are gone; later reports must arrive all the same."""
        self.database.close()
        self.folder.cleanup()
        self.folder = tempfile.TemporaryDirectory()
        self.newest = {}
        self.open()

    @invariant()
    def nothing_is_lost(self) -> None:
        """After a quiet time with a link, the hub would know the newest of every topic."""
        if not hasattr(self, "database"):
            return
        held = {chr(body[0]): int(body[1:]) for (body,) in self.rows()}
        for topic, value in self.newest.items():
            assert max(held.get(topic, 0), self.seen.get(topic, 0)) >= value

    def rows(self) -> list[tuple]:
        return self.database.rows("SELECT body FROM report ORDER BY position")


OutboxMachine.TestCase.settings = settings(max_examples=20, stateful_step_count=30, deadline=None)
TestOutbox = OutboxMachine.TestCase


@pytest.fixture
def outbox(tmp_path: Path):
    """An empty outbox."""
    database = Database(tmp_path / "agent.db")
    yield SqliteOutbox(database, FakeClock())
    database.close()


def test_only_the_newest_unsent_word_counts(outbox: SqliteOutbox) -> None:
    """A waiting report is replaced; one that was sent is not touched."""
    outbox.put("t", b"1")
    outbox.put("t", b"2")
    assert [r.body for r in outbox.take(9)] == [b"2"]
    outbox.put("t", b"3")
    assert [(r.number, r.body) for r in outbox.sent()] == [(1, b"2")]
    assert [(r.number, r.body) for r in outbox.take(9)] == [(2, b"3")]


def test_merging_or_not(outbox: SqliteOutbox) -> None:
    """With a merge both count; where it declines, both stay, in order."""
    outbox.put("m", b"1", lambda old, new: old + new)
    outbox.put("m", b"2", lambda old, new: old + new)
    outbox.put("m", b"3", lambda old, new: None)
    assert [r.body for r in outbox.take(9)] == [b"12", b"3"]


async def test_waiting_ends_when_there_is_something(outbox: SqliteOutbox) -> None:
    """An emptied outbox waits again."""
    outbox.put("t", b"1")
    await outbox.wait()
    outbox.take(9)
    assert not outbox._filled.is_set()


def test_a_disk_that_refuses_is_named(tmp_path: Path) -> None:
    """Not an sqlite3 error: one that people can read."""
    blocked = tmp_path / "file"
    blocked.write_text("")
    with pytest.raises(Unavailable, match="state cannot be written"):
        Database(blocked / "agent.db")


async def test_an_event_keeps_its_time_and_place(tmp_path: Path) -> None:
    """Its body may change until it is sent; afterwards the change is a report of its own."""
    clock, database = FakeClock(), Database(tmp_path / "agent.db")
    outbox = SqliteOutbox(database, clock)
    decided = int(clock.now().timestamp() * 1000)
    outbox.put_event("mirror/a/1", b"1")
    outbox.put("status/a/1", b"healthy")
    await clock.advance(60)
    outbox.put_event("mirror/a/1", b"1 again")
    taken = outbox.take(10)
    assert [report.body for report in taken] == [b"1 again", b"healthy"]
    assert taken[0].at_ms == decided
    outbox.put_event("mirror/a/1", b"1 later")
    assert [report.body for report in outbox.take(10)] == [b"1 later"]
    database.close()


def test_only_the_newest_of_a_group_stay(outbox: SqliteOutbox) -> None:
    for number in range(5):
        outbox.put_event(f"mirror/a/{number}", b"a%d" % number)
        outbox.put_event(f"mirror/ab/{number}", b"b%d" % number)
    outbox.trim("mirror/a", 2)
    left = [report.body for report in outbox.take(100)]
    assert [body for body in left if body.startswith(b"a")] == [b"a3", b"a4"]
    assert len([body for body in left if body.startswith(b"b")]) == 5


class CrashingOutbox(SqliteOutbox):
    """Ends before it drops old reports, as in a crash."""

    def trim(self, group: str, max_entries: int) -> None:
        raise Unavailable("crashed")


def test_a_crash_before_old_deployments_are_dropped_does_no_harm(tmp_path: Path) -> None:
    """One deployment more is kept, until the next one drops both."""
    database = Database(tmp_path / "agent.db")
    outbox, crashing = (kind(database, FakeClock()) for kind in (SqliteOutbox, CrashingOutbox))
    deployments = [LocalServiceReport("a", "a", "a", sequence=number) for number in range(102)]
    for deployment in deployments[:100]:
        OutboxReports(outbox).mirror(deployment)
    with pytest.raises(Unavailable):
        OutboxReports(crashing).mirror(deployments[100])
    assert outbox.waiting() == 101
    OutboxReports(outbox).mirror(deployments[101])
    newest = [pb.Report.FromString(report.body).mirrored for report in outbox.take(200)]
    assert [service.sequence for service in newest] == list(range(2, 102))
    database.close()
