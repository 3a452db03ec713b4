"""An agent with a full disk stays linked, complains, and receives missed messages again."""

from collections.abc import AsyncIterator, Generator
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection

import pytest

from core.errors import Unavailable
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.spec.desired import Desired
from core.spec.status import StageTimes
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.logs import LogQueue
from syncagent.link.session import LinkPorts
from syncagent.link.supervisor import AgentIdentity, LinkSupervisor
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from tests.fakes.hub import TOKEN, FakeHub
from tests.integration.syncagent.test_link import Listener, facts

FULL = "the agent's state cannot be written: database or disk is full"


class FullDatabase(Database):
    """A database that refuses writes while `full` is set."""

    full = False

    @contextmanager
    def transaction(self) -> Generator[Connection]:
        if self.full:
            self.disk_error = FULL
            raise Unavailable(FULL)
        with super().transaction() as db:
            yield db


class Keeper(Listener):
    """Keeps desired state on the disk before it counts, as the engine does."""

    def __init__(self, database: Database) -> None:
        super().__init__()
        self.memory = SqliteStateStore(database)

    def desire(self, desired: Desired) -> None:
        self.memory.save_desired_state(desired, StageTimes())
        super().desire(desired)


@pytest.fixture
async def hub() -> AsyncIterator[FakeHub]:
    async with FakeHub() as running:
        running.pulse_ms = 500
        yield running


@pytest.fixture
async def agent(
    hub: FakeHub, tmp_path: Path
) -> AsyncIterator[tuple[FullDatabase, Keeper, SqliteOutbox]]:
    """A running link that says with each pulse what the disk said last."""
    clock, tasks, database = SystemClock(), Tasks("test"), FullDatabase(tmp_path / "agent.db")
    outbox, listener = SqliteOutbox(database, clock), Keeper(database)
    endpoint = Endpoint(hub.address, TOKEN)
    linked = LinkSupervisor(
        endpoint,
        AgentIdentity("me"),
        LinkPorts(
            listener, Commands(listener), outbox, LogQueue(), clock, lambda: database.disk_error
        ),
        BundleTransfer(endpoint.metadata),
        ClusterFactsCache(facts, clock),
    )
    tasks.forever("link", linked.run())
    yield database, listener, outbox
    await tasks.stop()
    database.close()


async def test_a_full_disk_is_reported_and_missed_messages_are_resent(hub: FakeHub, agent) -> None:
    """From Hello on, with a report on the way up and a service on the way down: one call, pulses
    that complain; then, with room, another call that brings both where they belong."""
    database, listener, outbox = agent
    await hub.until(lambda: hub.hellos)
    outbox.put("a", pb.Report(status=pb.ServiceStatus(service_id="s")).SerializeToString())
    await hub.until(lambda: len(hub.reports) == 1)
    outbox.put("a", pb.Report(status=pb.ServiceStatus(service_id="t")).SerializeToString())
    database.full = True
    hub.drain()
    await hub.until(lambda: len(hub.hellos) == 2)
    hub.want("late", [])
    seen = len(hub.problems)
    await hub.until(lambda: FULL in hub.problems[seen:])
    seen = len(hub.problems)
    await hub.until(lambda: len(hub.problems) >= seen + 2)
    assert len(hub.hellos) == 2 and listener.received == []
    database.full = False
    await hub.until(lambda: len(hub.hellos) == 3)
    await hub.until(lambda: hub.status("t"))
    await hub.until(lambda: listener.received and hub.problems[-1] == "")
    assert [one.service_id for one in listener.received] == ["late"]
