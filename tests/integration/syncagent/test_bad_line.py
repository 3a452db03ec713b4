"""The whole link over real gRPC, on a line that is slow, far and often cut."""

import asyncio
import random
from collections import Counter
from pathlib import Path

from core.identity import local_id
from core.runtime.clock import SystemClock
from core.runtime.tasks import Tasks
from core.spec.desired import Desired
from core.spec.facts import ClusterFacts
from core.spec.reports.commands import CommandAnswer, CommandOutcome
from core.spec.status import Phase, StageTimes, SyncStatus
from core.spec.sync import ObjectSelection
from core.wire.v1 import agent_pb2 as pb
from syncagent.link.channel import Endpoint
from syncagent.link.commands import Commands
from syncagent.link.facts import ClusterFactsCache
from syncagent.link.fetch import BundleTransfer
from syncagent.link.logs import LogQueue
from syncagent.link.reports import OutboxReports
from syncagent.link.session import LinkPorts
from syncagent.link.supervisor import AgentIdentity, LinkSupervisor
from syncagent.state.database import Database
from syncagent.state.outbox import SqliteOutbox
from syncagent.state.store import SqliteStateStore
from tests.fakes.badline import BadLine
from tests.fakes.hub import TOKEN, FakeHub

SEED = 20_260_101
SERVICES = [f"service-{n}" for n in range(10)]
CHANGES = 100


class Agent:
    """Stores desired state, answers commands, and sends the reports that the test asks for."""

    def __init__(self, folder: Path) -> None:
        clock = SystemClock()
        self.database = Database(folder / "agent.db")
        self.outbox = SqliteOutbox(self.database, clock)
        self.memory, self.reports = SqliteStateStore(self.database), OutboxReports(self.outbox)
        self.desired: dict[str, list[int]] = {}
        self.executed: Counter[str] = Counter()
        self.reported: dict[str, int] = {}

    def desire(self, desired: Desired) -> None:
        known = self.desired.setdefault(desired.service_id, [])
        if not known or known[-1] < desired.sequence:
            known.append(desired.sequence)

    def stored_services(self) -> list[tuple[str, int]]:
        return [(service, known[-1]) for service, known in self.desired.items()]

    def linked(self) -> None: ...

    def report_all(self) -> None: ...

    def sync_now(
        self, command_id: str, service_id: str, selection: ObjectSelection | None = None
    ) -> None:
        if (answer := self.memory.find_answer(command_id)) is None:
            self.executed[command_id] += 1
            answer = CommandAnswer(command_id, CommandOutcome.SUCCEEDED)
            self.memory.save_answer(answer)
        self.reports.done(answer)

    def terminate(self, command_id: str, service_id: str) -> None: ...

    def refuse(self, command_id: str, reason: str) -> None: ...

    def say(self, service: str) -> None:
        self.reported[service] = self.reported.get(service, 0) + 1
        self.reports.status(
            SyncStatus(service, self.reported[service], "", Phase.HEALTHY, (), StageTimes())
        )


async def no_facts() -> ClusterFacts:
    return ClusterFacts()


def linked(agent: Agent, port: int) -> LinkSupervisor:
    endpoint, clock = Endpoint(f"http://127.0.0.1:{port}", TOKEN), SystemClock()
    return LinkSupervisor(
        endpoint,
        AgentIdentity(local_id("here", "me")),
        LinkPorts(agent, Commands(agent), agent.outbox, LogQueue(), clock),
        BundleTransfer(endpoint.metadata),
        ClusterFactsCache(no_facts, clock),
    )


async def change_much(hub: FakeHub, agent: Agent, chance: random.Random) -> None:
    """100 changes each way, and some commands, asked for twice when the line allows it."""
    for turn in range(CHANGES):
        hub.want(chance.choice(SERVICES), [])
        agent.say(chance.choice(SERVICES))
        if turn % 20 == 0:
            command = pb.Command(id=f"c{turn}", sync_now=pb.SyncNow(service_id="x"))
            for _ in range(2):
                if hub.hellos:
                    hub.send(pb.HubMessage(command=command))
        await asyncio.sleep(0.03)


async def test_both_ends_agree_after_many_cuts(tmp_path: Path) -> None:
    """The order of each service's words is kept, nothing is taken twice, both sides are equal."""
    chance, tasks, agent = random.Random(SEED), Tasks("test"), Agent(tmp_path)
    async with FakeHub() as hub, BadLine(hub.port, delay=0.05, rate=32_000) as line:
        tasks.forever("link", linked(agent, line.port).run())
        cutting = tasks.spawn("cuts", line.cut_at_random(chance, (0.2, 0.7)))
        await change_much(hub, agent, chance)
        cutting.cancel()
        await hub.until(lambda: agreed(hub, agent), 60)
        assert line.cuts > 3 and len(hub.hellos) > 2
        await tasks.stop()
    agent.database.close()
    numbers: list[int] = []
    for report in hub.reports:
        if not numbers or report.number > numbers[-1]:
            numbers.append(report.number)
    assert numbers == list(range(1, len(numbers) + 1))
    assert all(count == 1 for count in agent.executed.values())
    assert all(known == sorted(set(known)) for known in agent.desired.values())


def agreed(hub: FakeHub, agent: Agent) -> bool:
    wanted = {service: one.sequence for service, one in hub.desired.items()}
    acknowledged = {s: status.sequence for s in agent.reported if (status := hub.status(s))}
    here = {service: known[-1] for service, known in agent.desired.items()}
    return wanted == here and acknowledged == agent.reported


async def test_a_line_that_is_reset_is_made_anew_within_seconds(tmp_path: Path) -> None:
    """As a balancer does that ends what was idle; what is said meanwhile arrives."""
    agent, tasks = Agent(tmp_path), Tasks("test")
    async with FakeHub() as hub, BadLine(hub.port, delay=0.0, rate=1e9) as line:
        tasks.forever("link", linked(agent, line.port).run())
        await hub.until(lambda: hub.hellos)
        line.cut()
        await hub.until(lambda: len(hub.hellos) == 2)
        agent.say("late")
        await hub.until(lambda: hub.status("late"))
        await tasks.stop()
    agent.database.close()
