"""The link under any schedule of words, cuts and restarts: both ends agree once it is quiet.

Each run plays five hundred, on databases in memory; `LINK_SCHEDULES=50000` plays that many.
"""

import asyncio
import os
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from core.runtime.tasks import Tasks
from core.spec.desired import Desired
from core.spec.health import HealthState
from core.spec.objects import ObjectRef
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.reports.drift import DriftFound
from core.spec.reports.inventory import InventoryChange, ObservedComponent
from core.spec.status import Phase, StageTimes, SyncStatus
from core.spec.sync import ObjectSelection
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.commands import Commands
from syncagent.link.logs import LogQueue
from syncagent.link.reports import OutboxReports
from syncagent.link.session import LinkPorts, SyncSession
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from tests.fakes.clock import FakeClock, settle
from tests.fakes.wire import RuleHub

SERVICES = ("a", "b", "c")
SCHEDULES = int(os.environ.get("LINK_SCHEDULES", "500"))


class Agent:
    """The real link, outbox and memory over one database; what is reconciled is only counted."""

    def __init__(self, hub: RuleHub) -> None:
        self.hub, self.clock = hub, FakeClock()
        self.database = Database(Path(":memory:"))
        self.executed: Counter[str] = Counter()
        self.reported: dict[str, int] = {}
        self.objects: dict[str, dict[str, int]] = {}
        self.drifted: list[str] = []
        self.tasks = Tasks("test")
        self.boot()

    def boot(self) -> None:
        """Everything that a restart makes anew."""
        self.outbox = SqliteOutbox(self.database, self.clock)
        self.memory = SqliteStateStore(self.database)
        self.reports = OutboxReports(self.outbox)
        known = (one.desired for one in self.memory.load_services())
        self.desired = {one.service_id: one for one in known}

    # The port Reconciler

    def desire(self, desired: Desired) -> None:
        known = self.desired.get(desired.service_id)
        if known is None or known.sequence < desired.sequence:
            self.memory.save_desired_state(desired, StageTimes())
            self.desired[desired.service_id] = desired

    def stored_services(self) -> list[tuple[str, int]]:
        return [(one.service_id, one.sequence) for one in self.desired.values()]

    def linked(self) -> None: ...

    def report_all(self) -> None: ...

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        answer = self.memory.find_answer(command_id)
        if answer is None:
            self.executed[command_id] += 1
            answer = CommandAnswer(command_id, CommandOutcome.SUCCEEDED)
            self.memory.save_answer(answer)
        self.reports.done(answer)

    def terminate(self, command_id: str, service_id: str) -> None: ...

    def refuse(self, command_id: str, reason: str) -> None: ...

    # What happens to it

    async def connect(self) -> None:
        await self.disconnect()
        hello = pb.Hello(
            lowest_protocol=1,
            highest_protocol=1,
            held=[pb.Held(service_id=id, sequence=at) for id, at in self.stored_services()],
        )
        ports = LinkPorts(self, Commands(self), self.outbox, LogQueue(), self.clock)
        session = SyncSession(self.hub.sync(), hello, ports)
        self.tasks.spawn("session", self._live(session))
        await settle()

    async def _live(self, session: SyncSession) -> None:
        try:
            await session.send_hello()
            await session.run()
        except Exception as ended:
            assert "cut" in str(ended), ended
        finally:
            session.close()

    async def disconnect(self) -> None:
        self.hub.cut()
        await self.tasks.stop()
        self.tasks = Tasks("test")

    async def restart(self) -> None:
        await self.disconnect()
        self.boot()

    def say(self, service: str) -> None:
        self.reported[service] = self.reported.get(service, 0) + 1
        self.reports.status(
            SyncStatus(service, self.reported[service], "", Phase.HEALTHY, (), StageTimes())
        )

    def change(self, service: str, name: str) -> None:
        known = self.objects.setdefault(service, {})
        fresh = frozenset(() if name in known else {ref(name).key})
        known[name] = known.get(name, 0) + 1
        self._tell(service, present=(component(name, known[name]),), fresh=fresh)

    def lose(self, service: str, name: str) -> None:
        if self.objects.get(service, {}).pop(name, None) is not None:
            self._tell(service, gone=(ref(name),))

    def recount(self, service: str) -> None:
        present = tuple(component(*one) for one in self.objects.get(service, {}).items())
        self._tell(service, complete=True, present=present)

    def drift(self, service: str) -> None:
        self.drifted.append(f"{len(self.drifted)}")
        found = DriftFound(service, ref(f"d{len(self.drifted)}"), self.drifted[-1], (), False, True)
        self.reports.drift(found)

    def _tell(self, service: str, *, complete: bool = False, **parts: Any) -> None:
        change: dict[str, Any] = {"present": (), "gone": ()} | parts
        self.reports.inventory(InventoryChange(service, complete, **change))


def ref(name: str) -> ObjectRef:
    return ObjectRef("", "v1", "ConfigMap", "n", name)


def component(name: str, generation: int) -> ObservedComponent:
    healthy = HealthState.HEALTHY
    return ObservedComponent(ref(name), "", "", healthy, "", "", True, (), generation=generation)


services = st.sampled_from(SERVICES)
names = st.sampled_from(["x", "y"])
steps = st.one_of(
    st.tuples(st.just("want"), services),
    st.tuples(st.just("unwant"), services),
    st.tuples(st.just("ask")),
    st.tuples(st.just("take"), st.integers(1, 12)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("cut")),
    st.tuples(st.just("connect")),
    st.tuples(st.just("restart")),
    st.tuples(st.just("say"), services),
    st.tuples(st.just("change"), services, names),
    st.tuples(st.just("lose"), services, names),
    st.tuples(st.just("recount"), services),
    st.tuples(st.just("drift"), services),
)


async def play(schedule: list[tuple[Any, ...]]) -> tuple[Agent, RuleHub]:
    """Play a schedule, then let it come to rest with a good link."""
    hub = RuleHub()
    agent = Agent(hub)
    asked = 0
    for name, *given_ in schedule:
        if name == "ask":
            asked += 1
            hub.ask(f"command-{asked}")
            continue
        await act(hub, agent, name, given_)
        await settle(6)
    await agent.connect()
    for _ in range(200):
        moved = hub.take(100)
        hub.commit()
        await settle(6)
        if not moved and not hub.commands and not agent.outbox.waiting():
            break
    await agent.disconnect()
    agent.database.close()
    return agent, hub


async def act(hub: RuleHub, agent: Agent, name: str, given_: list[Any]) -> None:
    own: dict[str, Callable[..., Any]] = {
        "want": hub.want,
        "unwant": lambda service: hub.want(service, removed=True),
        "take": hub.take,
        "commit": hub.commit,
        "cut": hub.cut,
    }
    result = (own.get(name) or getattr(agent, name))(*given_)
    if asyncio.iscoroutine(result):
        await result


@pytest.mark.timeout(120 + SCHEDULES // 5)
@settings(max_examples=SCHEDULES, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, max_size=40))
def test_both_ends_agree_after_any_schedule(schedule: list[tuple[Any, ...]]) -> None:
    """Desired state, the last status, the inventory; order kept; no command carried out twice."""
    agent, hub = asyncio.run(play(schedule))
    signed = {
        service: one.sequence if one.spec is not None else -one.sequence
        for service, one in agent.desired.items()
    }
    assert signed == hub.desired
    assert {service: sequences[-1] for service, sequences in hub.statuses.items()} == agent.reported
    assert all(sent == sorted(set(sent)) for sent in hub.statuses.values())
    assert {k: v for k, v in hub.inventory.items() if v} == {
        k: v for k, v in agent.objects.items() if v
    }
    assert hub.drifts == agent.drifted
    assert not hub.commands and all(count == 1 for count in agent.executed.values())
