"""Sync calls of agents: which messages go out, and what becomes of those that come in."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from controlplane.agents.link.observations import SessionObserver
from controlplane.agents.link.report_limiter import BURST, THROTTLED_ALARM
from controlplane.agents.link.session import PULSE_SECONDS, AgentSession
from controlplane.agents.model.jobs import ClusterJob
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agents import AgentOperations
from controlplane.agents.ports import ClusterJobStore
from controlplane.clusters.model.commands import Command, CommandKind, CommandState
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.services.model.ledger import LedgerStage
from controlplane.services.ports import ServiceStore
from core.errors import Invalid, TowlineError, Unavailable
from core.rpc.calls import CallFailed, CallStatus
from core.spec.bundle import make_bundle
from core.spec.statements.attestation import AttestationStatement, Signer, TrustedKeys
from core.spec.statements.orders import verify_order
from core.spec.statements.signing_keys import public_key, rotate
from core.spec.status import Phase
from core.spec.sync import Removal
from core.wire.codec import attestation_from_message
from core.wire.orders import order_for_command, order_for_desired
from core.wire.v1 import agent_pb2 as wire
from gitcache.render.signing import RenderSigner
from tests.fakes.access import ReadOnlyStore
from tests.fakes.clock import START, settle
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

EU, US = make_cluster("eu", acknowledged=4), make_cluster("us")
BUNDLE = make_bundle([config_map("a")])
WEB = make_service(
    "web", EU, generation=3, digest=BUNDLE.digest, bundle_bytes=len(BUNDLE.data),
    commit_sha="a" * 40,
)  # fmt: skip
SYNC = Command("c", EU.id, CommandKind.SYNC_NOW, START, WEB.id, payload={"service": WEB.id})
POD = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": "busybox"}]}}
JOB = ClusterJob("j", EU.id, "k", "shop", POD, 60, True, "ada", START)
Incoming = wire.AgentMessage | Exception | None


class Agent:
    """An agent's end of a Sync call: `sent` are the messages of the control plane."""

    def __init__(self, world: MemoryOperations) -> None:
        self.world, self.logs = world, LiveLogs()
        self.sent: list[wire.HubMessage] = []
        self.agents = AgentOperations(world.context)
        self.observer = SessionObserver(self.agents, world.bus, self.logs, world.clock)
        self.session = AgentSession(EU.id, "t", self.agents, self, self.observer)
        self._incoming: asyncio.Queue[Incoming] = asyncio.Queue()
        self.call: asyncio.Task[None]

    async def write(self, message: wire.HubMessage) -> None:
        copy = wire.HubMessage()
        copy.CopyFrom(message)
        self.sent.append(copy)

    async def _messages(self) -> AsyncIterator[wire.AgentMessage]:
        while (message := await self._incoming.get()) is not None:
            if isinstance(message, Exception):
                raise message
            yield message

    async def connect(self, held: dict[str, int] | None = None, **fields: Any) -> list[str]:
        """Connects, and waits for the first difference; returns the kinds of all messages."""
        fields = {"lowest_protocol": 1, "highest_protocol": 1, "instance_id": "i", **fields}
        kept = [wire.Held(service_id=id, sequence=held[id]) for id in held or {}]
        hello = wire.Hello(held=kept, **fields)
        self.call = asyncio.ensure_future(self.session.run(hello, self._messages()))
        await self.until(lambda: self.call.done() or bool(self.of("desired_end")))
        await settle(50)
        return [message.WhichOneof("body") or "" for message in self.sent]

    def send(self, message: Incoming) -> None:
        self._incoming.put_nowait(message)

    @property
    def unread(self) -> int:
        """The number of messages that the control plane has not read."""
        return self._incoming.qsize()

    async def says(self, *messages: Incoming) -> None:
        """Sends messages, and lets the control plane work for a second."""
        for message in messages:
            self.send(message)
        await self.passes(1)

    async def passes(self, seconds: float) -> None:
        await settle(50)
        for _ in range(round(seconds * 10)):
            await self.world.clock.advance(0.1)
            await settle(50)

    async def until(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not condition():
                await asyncio.sleep(0)

    async def changes(self, service_id: str = "") -> list[wire.HubMessage]:
        """Wakes the session; returns what it sends then."""
        self.sent.clear()
        self.session.wake(service_id)
        await settle(100)
        return list(self.sent)

    def of(self, kind: str) -> list[Any]:
        """The content of all messages of a kind."""
        return [getattr(sent, kind) for sent in self.sent if sent.WhichOneof("body") == kind]


@asynccontextmanager
async def agent_over(world: MemoryOperations) -> AsyncGenerator[Agent]:
    agent = Agent(world)
    yield agent
    if hasattr(agent, "call") and not agent.call.done():
        agent.call.cancel()
        await asyncio.wait([agent.call])


@pytest.fixture
async def world() -> MemoryOperations:
    world = operations_over_memory()
    await world.given(EU, US, WEB)
    await world.manifests.store_bundle(BUNDLE.data)
    return world


@pytest.fixture
async def agent(world: MemoryOperations) -> AsyncIterator[Agent]:
    async with agent_over(world) as agent:
        yield agent


def report(number: int, phase: wire.Phase = wire.PHASE_HEALTHY) -> wire.AgentMessage:
    status = wire.ServiceStatus(service_id=WEB.id, sequence=3, digest=BUNDLE.digest, phase=phase)
    return wire.AgentMessage(report=wire.Report(number=number, status=status))


async def test_an_agent_is_welcomed_and_gets_what_it_lacks(agent: Agent) -> None:
    kinds = await agent.connect()
    assert kinds == ["welcome", "desired", "desired_end"]
    (welcome,), (desired,), (end,) = map(agent.of, kinds)
    assert (welcome.protocol, welcome.cluster_id, welcome.handle) == (1, "eu", "eu")
    assert (welcome.acknowledged, welcome.pulse_ms) == (4, PULSE_SECONDS * 1000)
    assert len(welcome.signing_key) == 32 and not welcome.rotations
    assert (desired.service_id, desired.sequence) == (WEB.id, 3)
    assert desired.spec.bundle == BUNDLE.data
    assert end.services == 1
    await agent.observer.write()
    assert [row.stage for row in await agent.world.ledger()] == [LedgerStage.OFFERED]


@pytest.mark.parametrize(
    ("held", "sent"),
    [
        ({WEB.id: 2}, [(WEB.id, 3, 0)]),
        ({WEB.id: 3}, []),
        ({WEB.id: 5}, [(WEB.id, 6, 0)]),
        ({WEB.id: 3, "gone": 7}, [("gone", 8, wire.REMOVAL_ORPHAN)]),
    ],
)
async def test_the_difference_is_what_the_agent_does_not_have(
    agent: Agent, held: dict[str, int], sent: list[tuple[str, int, int]]
) -> None:
    """A service that the control plane does not know is dropped; its objects stay."""
    await agent.connect(held)
    found = [(each.service_id, each.sequence, each.removal) for each in agent.of("desired")]
    assert found == sent
    assert [end.services for end in agent.of("desired_end")] == [1]


async def test_a_store_from_a_backup_counts_on(agent: Agent) -> None:
    """The agent has reported more than the store knows: its numbers may mean other states."""
    await agent.connect({WEB.id: 3}, acknowledged=5)
    assert [each.sequence for each in agent.of("desired")] == [4]


@pytest.mark.parametrize(("lowest", "highest"), [(2, 3), (0, 0)])
async def test_an_agent_of_another_protocol_leaves_no_trace(
    agent: Agent, lowest: int, highest: int
) -> None:
    await agent.connect(lowest_protocol=lowest, highest_protocol=highest)
    with pytest.raises(Invalid, match=f"speaks protocol {lowest} to {highest}, this control plane"):
        await agent.call
    assert agent.sent == [] and not agent.session.greeted
    assert await agent.world.audited() == []


async def test_changes_are_sent_once(agent: Agent) -> None:
    await agent.connect()
    assert await agent.changes(WEB.id) == []
    async with agent.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, generation=4)
    (sent,) = await agent.changes(WEB.id)
    assert (sent.desired.sequence, sent.desired.spec.bundle) == (4, b""), "it has the bundle"
    async with agent.world.store.write() as tx:
        await tx[ServiceStore].mark_deleted(WEB.id, Removal.CASCADE, 5, START)
    (sent,) = await agent.changes(WEB.id)
    assert (sent.desired.sequence, sent.desired.removal) == (5, wire.REMOVAL_CASCADE)
    async with agent.world.store.write() as tx:
        await tx[ServiceStore].remove(WEB.id)
    assert await agent.changes("unknown") == []
    sent, end = await agent.changes()
    assert (sent.desired.removal, sent.desired.sequence) == (wire.REMOVAL_ORPHAN, 6)
    assert end.desired_end.services == 0
    assert [message.WhichOneof("body") for message in await agent.changes()] == ["desired_end"]


async def test_a_service_whose_fence_is_unknown_is_not_sent(agent: Agent) -> None:
    """Its agent would apply it with its own permissions."""
    lost = make_service("lost", EU, generation=1, project_id="gone")
    await agent.world.given(lost)
    await agent.connect()
    assert [each.service_id for each in agent.of("desired")] == [WEB.id]
    row = await agent.world.row(ServiceStore, lost.id)
    assert row is not None and row.observed.phase is Phase.FAILED
    assert "its project or its cluster does not exist" in row.observed.problems[0].message
    assert await agent.changes(lost.id) == [], "not before its next change"


async def test_commands_go_out_once_after_the_difference(agent: Agent) -> None:
    """One that cannot be sent is refused, and stops no other one."""
    job = replace(JOB, namespace="bank", project_id="gone")
    async with agent.world.store.write() as tx:
        await tx[ClusterJobStore].add(JOB)
        await tx[ClusterJobStore].add(replace(job, id="lost", key="lost"))
    for id in ("lost", "j"):
        await agent.world.given(Command(id, EU.id, CommandKind.RUN_JOB, START))
    await agent.world.given(SYNC, replace(SYNC, id="theirs", cluster_id=US.id))
    kinds = await agent.connect()
    assert kinds == ["welcome", "desired", "desired_end", "command", "command"]
    commands = {command.id: command for command in agent.of("command")}
    assert commands.keys() == {"j", "c"}
    assert commands["j"].run_job.namespace == "shop"
    states = {row.id: row.state for row in await agent.world.rows(CommandStore)}
    assert states["lost"] is CommandState.REFUSED and states["c"] is CommandState.WAITING
    assert [message.WhichOneof("body") for message in await agent.changes()] == ["desired_end"]


async def test_reports_are_acknowledged_after_their_commit(agent: Agent) -> None:
    await agent.connect()
    await agent.says(report(5, wire.PHASE_APPLIED), report(6))
    assert [ack.number for ack in agent.of("ack")] == [6]
    row = await agent.world.row(ServiceStore, WEB.id)
    assert row is not None and row.observed.phase is Phase.HEALTHY
    stages = [entry.stage for entry in await agent.world.ledger()]
    assert stages == [LedgerStage.OFFERED, LedgerStage.APPLIED, LedgerStage.HEALTHY]
    await agent.says(report(6), report(7))
    assert [ack.number for ack in agent.of("ack")] == [6, 7]


async def test_nothing_counts_and_nothing_goes_out_after_goodbye(agent: Agent) -> None:
    await agent.connect()
    await agent.world.given(SYNC)
    agent.sent.clear()
    agent.session.say_goodbye(wire.GOODBYE_REASON_REVOKED, "the token was revoked")
    agent.session.wake("")
    await agent.says(report(5))
    await agent.until(agent.call.done)
    (goodbye,) = agent.of("goodbye")
    assert (goodbye.reason, goodbye.message) == (
        wire.GOODBYE_REASON_REVOKED,
        "the token was revoked",
    )
    assert [message.WhichOneof("body") for message in agent.sent][-1] == "goodbye"
    assert agent.of("ack") == agent.of("command") == []
    row = await agent.world.row(ServiceStore, WEB.id)
    assert row is not None and row.observed.phase is None


async def test_an_agent_that_is_lost_ends_its_call_without_an_error(agent: Agent) -> None:
    await agent.connect()
    await agent.says(CallFailed(CallStatus.UNAVAILABLE, "connection reset"))
    assert agent.call.done() and agent.call.exception() is None


@pytest.mark.parametrize(
    "fault",
    [
        CallFailed(CallStatus.INTERNAL, "bad frame"),
        wire.AgentMessage(pulse=wire.Pulse(problem="x" * 5_000)),
    ],
)
async def test_a_broken_message_ends_the_call(agent: Agent, fault: Incoming) -> None:
    await agent.connect()
    await agent.says(fault)
    assert agent.call.done() and isinstance(agent.call.exception(), TowlineError)


async def test_the_problem_of_an_agent_is_shown_while_it_lasts(agent: Agent) -> None:
    async def alarm() -> str:
        row = await agent.world.row(ClusterStore, "eu")
        assert row is not None
        return row.alarm

    await agent.connect()
    alarms = []
    for problem in ("disk full", "disk full", ""):
        await agent.says(wire.AgentMessage(pulse=wire.Pulse(problem=problem)))
        alarms.append(await alarm())
    assert alarms == ["the agent reports: disk full"] * 2 + [""]
    await agent.agents.set_alarm(EU.id, "two agents")
    await agent.says(wire.AgentMessage(pulse=wire.Pulse()))
    assert await alarm() == "two agents", "it is no problem of the agent"


async def test_an_alarm_of_the_former_call_ends_with_its_problem(world: MemoryOperations) -> None:
    async with world.store.write() as tx:
        await tx[ClusterStore].set_alarm("eu", "the agent reports: disk full")
    async with agent_over(world) as agent:
        await agent.connect()
        await agent.says(wire.AgentMessage(pulse=wire.Pulse()))
        row = await world.row(ClusterStore, "eu")
        assert row is not None and row.alarm == ""


async def test_logs_are_taken_only_for_jobs_of_the_cluster(agent: Agent) -> None:
    """The agent of one cluster writes nothing into the log of another one's job."""
    async with agent.world.store.write() as tx:
        await tx[ClusterJobStore].add(JOB)
        await tx[ClusterJobStore].add(replace(JOB, id="theirs", key="t", cluster_id=US.id))
    await agent.connect()
    for offset, data in ((0, b"one "), (4, b"two")):
        pieces = [
            wire.AgentMessage(job_log=wire.JobLog(command_id=id, offset=offset, data=data))
            for id in ("j", "theirs", "unknown")
        ]
        await agent.says(*pieces)
    kept = {id: agent.logs.read(id, 0)[1] for id in ("j", "theirs", "unknown")}
    assert kept == {"j": b"one two", "theirs": b"", "unknown": b""}


async def test_each_message_is_a_sign_of_life(agent: Agent) -> None:
    await agent.connect()
    await agent.passes(5)
    await agent.says(wire.AgentMessage(pulse=wire.Pulse()))
    seen = agent.world.clock.now()
    await agent.observer.write()
    row = await agent.world.row(ClusterStore, "eu")
    assert row is not None and row.pinged_at is not None
    assert 0 < (row.pinged_at - START).total_seconds() <= (seen - START).total_seconds()


async def test_what_was_offered_during_an_outage_is_in_the_ledger_once_after_it(
    world: MemoryOperations,
) -> None:
    store = ReadOnlyStore(world.store)
    agents = AgentOperations(replace(world.context, store=store))
    observer = SessionObserver(agents, world.bus, LiveLogs(), world.clock)
    observer.record_offer(WEB)
    await observer.write()
    await world.clock.advance(1)
    observer.record_offer(WEB)
    await observer.write()
    assert await world.ledger() == []
    store.is_read_only = False
    for _ in range(2):
        await observer.write()
    rows = [(row.service_id, row.stage, row.at) for row in await world.ledger()]
    offered = (WEB.id, LedgerStage.OFFERED)
    assert rows == [(*offered, START), (*offered, START + timedelta(seconds=1))]


async def test_an_agent_with_too_many_reports_is_slowed_down_and_shown(agent: Agent) -> None:
    """No report is lost, and the next call knows of it."""
    await agent.connect()
    drifts = [
        wire.AgentMessage(report=wire.Report(number=n, drift=wire.Drift(service_id=WEB.id)))
        for n in range(5, 5 + BURST // 10 + 40)
    ]
    await agent.says(*drifts)
    await agent.passes(2)
    row = await agent.world.row(ClusterStore, "eu")
    assert row is not None and row.alarm == THROTTLED_ALARM
    assert agent.of("ack")[-1].number < 4 + len(drifts)
    await agent.passes(10)
    assert agent.of("ack")[-1].number == 4 + len(drifts)
    async with agent_over(agent.world) as later:
        await later.connect()
        await agent.world.clock.advance(BURST)
        assert list(later.observer.limiter.recovered()) == [EU.id]


async def test_an_agent_that_reports_faster_than_reports_are_committed_is_read_no_further(
    agent: Agent,
) -> None:
    """Its reports wait in the network, not in the memory of the control plane; all are committed in
    the end.
    """
    count = 1200
    await agent.connect()
    for number in range(5, 5 + count):
        agent.send(report(number))
    await settle(2 * count)
    assert agent.unread >= 100
    await agent.passes(60)
    assert agent.unread == 0
    assert agent.of("ack")[-1].number == 4 + count


async def test_each_message_has_an_order_of_the_present_key(world: MemoryOperations) -> None:
    """The agent obeys nothing else. It gets the attestation of a replaced key anew."""
    old, new = (Signer(Ed25519PrivateKey.generate()) for _ in range(2))
    world.manifests.signer = RenderSigner(new, world.clock, rotations=(rotate(old, new),))
    attested = old.sign(AttestationStatement(BUNDLE.digest, ()))
    async with world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, attestation=attested)
    await world.given(SYNC)
    keys, now = TrustedKeys(()), world.clock.now()
    keys.pin(public_key(new.public_raw))
    async with agent_over(world) as agent:
        await agent.connect({"gone": 7})
        (welcome,), (command,) = agent.of("welcome"), agent.of("command")
        assert (welcome.signing_key, len(welcome.rotations)) == (new.public_raw, 1)
        desired = {each.service_id: each for each in agent.of("desired")}
        assert desired.keys() == {WEB.id, "gone"}
        requests = [(each, order_for_desired(EU.id, each)) for each in desired.values()]
        for message, request in (*requests, (command, order_for_command(EU.id, command))):
            verify_order(keys, attestation_from_message(message.order), request, now)
        renewed = attestation_from_message(desired[WEB.id].spec.attestation)
        keys.verify(BUNDLE.digest, renewed)


async def test_nothing_goes_out_unsigned_while_the_signer_is_away(world: MemoryOperations) -> None:
    """It goes out later, also what is to be dropped."""
    await world.given(SYNC)
    async with agent_over(world) as agent:
        world.manifests.away = Unavailable("the render tier is away")
        kinds = await agent.connect({"gone": 7})
        assert kinds == ["welcome", "desired_end"]
        await agent.observer.write()
        assert await world.ledger() == []
        world.manifests.away = None
        sent = await agent.changes()
        assert [message.WhichOneof("body") for message in sent] == [
            "desired",
            "desired",
            "desired_end",
            "command",
        ]
