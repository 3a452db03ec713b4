"""Calls of agents to a replica: who may make them, and when a connected agent has to leave."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import datetime, timedelta

import pytest
from google.protobuf.message import Message

from controlplane.access.model.bindings import Binding, SubjectKind
from controlplane.access.model.users import Token, User
from controlplane.access.operations.identity import CredentialAuthenticator
from controlplane.access.ports import TokenStore
from controlplane.agents.link.server import CHUNK_BYTES, AgentLink
from controlplane.agents.model.live_logs import LiveLogs
from controlplane.agents.operations.agents import AgentOperations
from controlplane.authorization import INSTALLATION
from controlplane.clusters.model.commands import UPLOADED_DIGEST, Command, CommandKind
from controlplane.clusters.operations.bootstrap_tokens import BootstrapTokenChange, BootstrapTokens
from controlplane.clusters.ports import ClusterStore, CommandStore
from controlplane.platform.context import AGENT_CHANGED, DESIRED_STATE, REVOKED
from controlplane.platform.ports import LOST_WAKES, Store, Transaction
from controlplane.services.ports import ServiceStore
from core.errors import Invalid, NotFound, Unauthenticated, Unavailable
from core.identity import ClusterId, TokenKind, new_token, token_hash
from core.spec.bundle import MAX_BUNDLE_BYTES, make_bundle
from core.wire.v1 import agent_pb2 as wire
from tests.fakes.access import FakeDeployTokens
from tests.fakes.actors import EDITOR
from tests.fakes.audit_rows import audit_rows
from tests.fakes.clock import START, settle
from tests.fakes.manifests import config_map
from tests.fakes.operations import (
    MemoryOperations,
    make_cluster,
    make_service,
    operations_over_memory,
)

EU, US = make_cluster("eu"), make_cluster("us")
BUNDLE = make_bundle([config_map(f"name-{number}", text="x" * 900) for number in range(150)])
WEB = make_service("web", EU, generation=1, digest=BUNDLE.digest, commit_sha="a" * 40)
RENDER = Command("r", EU.id, CommandKind.RENDER, START, payload={"box": "AA=="})
SECRETS = {id: new_token(TokenKind.AGENT) for id in ("eu", "us")}
EDITOR_EVERYWHERE = Binding("b", "editor", SubjectKind.USER, EDITOR.id, INSTALLATION, START)
HELLO = wire.Hello(lowest_protocol=1, highest_protocol=1, instance_id="one")


class FakeCall:
    """One end of a call: messages of the agent, and those of the control plane."""

    def __init__(self, secret: str, *messages: Message, scheme: str = "Bearer") -> None:
        self.metadata: Mapping[str, str] = {"authorization": f"{scheme} {secret}"}
        self.peer = "192.0.2.1:4711"
        self.sent: list[bytes] = []
        self._incoming: asyncio.Queue[bytes | None] = asyncio.Queue()
        for message in messages:
            self._incoming.put_nowait(message.SerializeToString())

    def say(self, message: Message) -> None:
        self._incoming.put_nowait(message.SerializeToString())

    def end(self) -> "FakeCall":
        self._incoming.put_nowait(None)
        return self

    async def read(self) -> bytes | None:
        return await self._incoming.get()

    async def write(self, message: bytes) -> None:
        self.sent.append(message)

    async def done(self) -> None:
        self.end()

    def cancel(self) -> None:
        self.end()

    @property
    def goodbyes(self) -> list[int]:
        """The reasons of all messages of farewell."""
        found = [wire.HubMessage.FromString(sent) for sent in self.sent]
        return [each.goodbye.reason for each in found if each.WhichOneof("body") == "goodbye"]


class FailingStore:
    """A store of which no transaction begins while `is_away`."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self.is_away = False

    @asynccontextmanager
    async def read(self) -> AsyncGenerator[Transaction, None]:
        if self.is_away:
            raise Unavailable("the store is away")
        async with self._store.read() as tx:
            yield tx

    @asynccontextmanager
    async def write(self) -> AsyncGenerator[Transaction, None]:
        if self.is_away:
            raise Unavailable("the store is away")
        async with self._store.write() as tx:
            yield tx


class FailingDeployTokens(FakeDeployTokens):
    """Finds deploy tokens in the store, and none while it is away."""

    def __init__(
        self, store: FailingStore, rows: Mapping[str, tuple[Token, ClusterId | None]]
    ) -> None:
        super().__init__(rows)
        self._store = store

    async def find(self, hash: str) -> tuple[Token, ClusterId | None] | None:
        async with self._store.read():
            return await super().find(hash)


class Replica:
    """A replica with its open calls."""

    def __init__(self, world: MemoryOperations) -> None:
        rows = {
            token_hash(secret): (
                Token(f"t-{id}", TokenKind.AGENT, id, token_hash(secret), START, cluster_id=id),
                ClusterId(id),
            )
            for id, secret in SECRETS.items()
        }
        self.world, self.known_tokens = world, rows
        self.store = FailingStore(world.store)
        context = replace(world.context, store=self.store)
        self.link = AgentLink(
            AgentOperations(context),
            CredentialAuthenticator(context, FailingDeployTokens(self.store, rows)),
            BootstrapTokens(context),
            world.bus,
            LiveLogs(),
            world.clock,
        )
        self.calls: list[asyncio.Future[None]] = []

    async def connect(self, id: str = "eu", instance: str = "one") -> FakeCall:
        """Connects an agent, and waits for its first difference."""
        hello = wire.Hello()
        hello.CopyFrom(HELLO)
        hello.instance_id = instance
        call = FakeCall(SECRETS[id], wire.AgentMessage(hello=hello))
        self.calls.append(asyncio.ensure_future(self.link.sync(call)))
        await settle(300)
        return call

    async def hears(self, topic: str, key: str = "") -> None:
        self.world.bus.publish(topic, key)
        await settle(300)


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    world = operations_over_memory()
    await world.given(EU, US, WEB, RENDER)
    async with world.store.write() as tx:
        for id, secret in SECRETS.items():
            row = Token(f"t-{id}", TokenKind.AGENT, id, token_hash(secret), START, cluster_id=id)
            await tx[TokenStore].add(row)
    await world.manifests.store_bundle(BUNDLE.data)
    replica = Replica(world)
    await replica.link.start()
    await settle()
    yield replica
    for call in replica.calls:
        call.cancel()
    await asyncio.gather(*replica.calls, return_exceptions=True)
    await replica.link.stop()


@pytest.mark.parametrize("method", ["sync", "fetch", "upload", "join"])
@pytest.mark.parametrize(
    "call",
    [
        FakeCall("", scheme=""),
        FakeCall(new_token(TokenKind.AGENT)),
        FakeCall(new_token(TokenKind.USER)),
        FakeCall(SECRETS["eu"], scheme="Basic"),
    ],
    ids=["none", "unknown", "of a user", "another scheme"],
)
async def test_a_call_without_its_token_reads_nothing(
    replica: Replica, method: str, call: FakeCall
) -> None:
    with pytest.raises(Unauthenticated):
        await getattr(replica.link, method)(call)
    assert call.sent == [] and replica.link.connected() == frozenset()


@pytest.mark.parametrize("offset", [0, 1, CHUNK_BYTES, CHUNK_BYTES + 1, len(BUNDLE.data)])
async def test_a_bundle_is_sent_in_parts_from_an_offset(replica: Replica, offset: int) -> None:
    call = FakeCall(SECRETS["eu"], wire.FetchRequest(digest=BUNDLE.digest, offset=offset))
    await replica.link.fetch(call)
    chunks = [wire.Chunk.FromString(sent) for sent in call.sent]
    assert b"".join(chunk.data for chunk in chunks) == BUNDLE.data[offset:]
    assert all(chunk.total == len(BUNDLE.data) for chunk in chunks)
    assert all(len(chunk.data) <= CHUNK_BYTES for chunk in chunks)
    position = offset
    for chunk in chunks:
        assert chunk.offset == position
        position += len(chunk.data)


async def test_the_agent_of_another_cluster_gets_no_bundle(replica: Replica) -> None:
    call = FakeCall(SECRETS["us"], wire.FetchRequest(digest=BUNDLE.digest))
    with pytest.raises(NotFound):
        await replica.link.fetch(call)
    assert call.sent == []


async def test_a_render_is_uploaded_by_the_agent_that_was_asked(replica: Replica) -> None:
    """Another one is refused before its second part."""
    starts = range(0, len(BUNDLE.data), CHUNK_BYTES)
    parts = [
        wire.Part(command_id="" if start else "r", data=BUNDLE.data[start : start + CHUNK_BYTES])
        for start in starts
    ]
    foreign = FakeCall(SECRETS["us"], parts[0])
    with pytest.raises(NotFound):
        await replica.link.upload(foreign)
    call = FakeCall(SECRETS["eu"], *parts).end()
    await replica.link.upload(call)
    (uploaded,) = [wire.Uploaded.FromString(sent) for sent in call.sent]
    assert uploaded.digest == BUNDLE.digest
    row = await replica.world.row(CommandStore, "r")
    assert row is not None and row.payload[UPLOADED_DIGEST] == BUNDLE.digest


class EndlessCall(FakeCall):
    """A call whose agent never stops sending the same part; `reads` counts the parts."""

    reads = 0

    async def read(self) -> bytes | None:
        self.reads += 1
        part = wire.Part(command_id="r", data=b"x" * CHUNK_BYTES)
        return part.SerializeToString()


async def test_an_upload_ends_above_the_limit_of_a_bundle(replica: Replica) -> None:
    call = EndlessCall(SECRETS["eu"])
    with pytest.raises(Invalid, match="the bundle exceeds the limit"):
        await replica.link.upload(call)
    assert call.reads == MAX_BUNDLE_BYTES // CHUNK_BYTES + 1 and call.sent == []


async def test_the_first_message_of_a_call_is_a_greeting(replica: Replica) -> None:
    call = FakeCall(SECRETS["eu"], wire.AgentMessage(pulse=wire.Pulse()))
    with pytest.raises(Invalid, match="the first message must be Hello"):
        await replica.link.sync(call)
    with pytest.raises(Invalid, match="the request is empty: send Hello"):
        await replica.link.sync(FakeCall(SECRETS["eu"]).end())
    assert replica.link.connected() == frozenset()


async def test_a_newer_agent_of_a_cluster_replaces_the_older_one(replica: Replica) -> None:
    first, other = await replica.connect(), await replica.connect("us")
    assert replica.link.connected() == {"eu", "us"}
    await replica.connect(instance="two")
    assert first.goodbyes == [wire.GOODBYE_REASON_REPLACED] and other.goodbyes == []
    assert replica.link.connected() == {"eu", "us"}


async def test_an_agent_that_connected_to_another_replica_is_told(replica: Replica) -> None:
    """Only if it is another instance: the same one has only moved its call."""
    call = await replica.connect()
    await replica.hears(AGENT_CHANGED, "eu")
    assert call.goodbyes == []
    async with replica.world.store.write() as tx:
        await tx[ClusterStore].change("eu", agent_instance="elsewhere")
    await replica.hears(AGENT_CHANGED, "us")
    assert call.goodbyes == []
    await replica.hears(AGENT_CHANGED, "eu")
    assert call.goodbyes == [wire.GOODBYE_REASON_REPLACED]


@pytest.mark.parametrize(
    ("topic", "key", "is_ended"),
    [(REVOKED, "t-eu", True), (REVOKED, "t-us", False), (LOST_WAKES, "", False)],
)
async def test_a_revoked_token_ends_its_call(
    replica: Replica, topic: str, key: str, is_ended: bool
) -> None:
    call = await replica.connect()
    await replica.hears(topic, key)
    assert call.goodbyes == ([wire.GOODBYE_REASON_REVOKED] if is_ended else [])


async def test_a_revocation_that_nobody_heard_of_counts_after_lost_messages(
    replica: Replica,
) -> None:
    call, other = await replica.connect(), await replica.connect("us")
    del replica.known_tokens[token_hash(SECRETS["eu"])]
    await replica.hears(LOST_WAKES)
    assert (call.goodbyes, other.goodbyes) == ([wire.GOODBYE_REASON_REVOKED], [])


async def test_agents_stay_connected_while_the_store_is_away(replica: Replica) -> None:
    """Nobody knows then whether a token was revoked: the next check says it."""
    call, other = await replica.connect(), await replica.connect("us")
    del replica.known_tokens[token_hash(SECRETS["eu"])]
    replica.store.is_away = True
    await replica.hears(AGENT_CHANGED, "us")
    await replica.world.clock.advance(31)
    assert call.goodbyes == other.goodbyes == []
    assert replica.link.connected() == {"eu", "us"}
    replica.store.is_away = False
    await replica.world.clock.advance(31)
    await settle(300)
    assert (call.goodbyes, other.goodbyes) == ([wire.GOODBYE_REASON_REVOKED], [])


async def test_agents_that_were_heard_during_an_outage_count_as_seen_after_it(
    replica: Replica,
) -> None:
    """Otherwise each short outage would show healthy clusters as silent."""

    async def seen_at(id: str) -> datetime | None:
        row = await replica.world.row(ClusterStore, id)
        assert row is not None
        return row.pinged_at

    pulse = wire.AgentMessage(pulse=wire.Pulse())
    call, other = await replica.connect(), await replica.connect("us")
    replica.store.is_away = True
    call.say(pulse)
    other.say(pulse)
    await settle(100)
    await replica.world.clock.advance(5)
    call.say(pulse)
    await settle(100)
    await replica.world.clock.advance(2)
    replica.store.is_away = False
    await replica.world.clock.advance(2)
    assert await seen_at("eu") == START + timedelta(seconds=5)
    assert await seen_at("us") == START


async def test_the_alarm_of_two_agents_ends_after_five_calm_minutes(replica: Replica) -> None:
    for number in range(5):
        await replica.connect(instance=f"agent-{number}")
    row = await replica.world.row(ClusterStore, "eu")
    assert row is not None and row.alarm
    await replica.world.clock.advance(340)
    row = await replica.world.row(ClusterStore, "eu")
    assert row is not None and row.alarm == ""


async def test_a_cluster_joins_with_a_bootstrap_token_over_the_link(replica: Replica) -> None:
    """Its agent connects with the deploy token that it gets. A dry run registers nothing."""
    world, uid = replica.world, "0a1b2c3d-0000-4000-8000-000000000001"
    await world.given(User(EDITOR.id, EDITOR.email, "Ed", START, START), EDITOR_EVERYWHERE)
    change = BootstrapTokenChange("edge", max_uses=1)
    _, secret = await BootstrapTokens(world.context).create(EDITOR, change)
    answers = []
    for dry_run in (True, False):
        request = wire.JoinRequest(name="edge", kubernetes_uid=uid, dry_run=dry_run)
        call = FakeCall(secret, request)
        await replica.link.join(call)
        answers += [wire.Joined.FromString(sent) for sent in call.sent]
    tried, joined = answers
    assert tried == wire.Joined()
    row = await world.row(ClusterStore, joined.cluster_id)
    assert row is not None and (row.handle, joined.handle) == ("edge", "edge")
    (token,) = await world.rows(TokenStore, cluster_id=joined.cluster_id)
    assert token.hash == token_hash(joined.deploy_token)
    async with world.store.read() as tx:
        audited = await audit_rows(tx, "joinCluster")
    assert [entry.source for entry in audited] == ["192.0.2.1"]


async def test_a_replica_that_stops_ends_calls_that_nobody_answers(replica: Replica) -> None:
    """An agent that connects and never greets keeps no replica from stopping."""
    silent = asyncio.ensure_future(replica.link.sync(FakeCall(SECRETS["eu"])))
    await settle(100)
    assert not silent.done()
    await replica.link.stop()
    assert silent.cancelled()


async def test_a_replica_that_stops_sends_its_agents_away(replica: Replica) -> None:
    call, other = await replica.connect(), await replica.connect("us")
    await replica.link.drain()
    await settle(300)
    assert call.goodbyes == other.goodbyes == [wire.GOODBYE_REASON_DRAINING]
    assert replica.link.connected() == frozenset()


async def test_lost_messages_send_each_agent_its_changes(replica: Replica) -> None:
    call = await replica.connect()
    async with replica.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, generation=2)
    call.sent.clear()
    await replica.hears(LOST_WAKES)
    bodies = [wire.HubMessage.FromString(sent) for sent in call.sent]
    desired = [body.desired.sequence for body in bodies if body.WhichOneof("body") == "desired"]
    assert desired == [2]


async def test_a_token_that_is_revoked_before_the_greeting_opens_no_session(
    replica: Replica,
) -> None:
    """The check of the token came first, and no session was there for the revocation to end."""
    call = FakeCall(SECRETS["eu"])
    syncing = asyncio.ensure_future(replica.link.sync(call))
    replica.calls.append(syncing)
    await settle(100)
    del replica.known_tokens[token_hash(SECRETS["eu"])]
    await replica.hears(REVOKED, "t-eu")
    call.say(wire.AgentMessage(hello=HELLO))
    with pytest.raises(Unauthenticated):
        await syncing
    assert call.sent == [] and replica.link.connected() == frozenset()


async def test_agents_that_keep_replacing_each_other_are_shown_with_their_addresses(
    replica: Replica,
) -> None:
    async def alarm() -> str:
        row = await replica.world.row(ClusterStore, "eu")
        assert row is not None
        return row.alarm

    for number in range(4):
        await replica.connect(instance=f"agent-{number}")
    assert await alarm() == ""
    await replica.connect(instance="agent-4")
    assert "two agents use this cluster's deploy token" in await alarm()
    assert "192.0.2.1:4711" in await alarm()


async def test_a_change_of_a_service_reaches_the_agent_of_its_cluster(replica: Replica) -> None:
    call, other = await replica.connect(), await replica.connect("us")
    async with replica.world.store.write() as tx:
        await tx[ServiceStore].change(WEB.id, generation=2)
    call.sent.clear()
    other.sent.clear()
    await replica.hears(DESIRED_STATE, f"eu/{WEB.id}")
    (sent,) = [wire.HubMessage.FromString(each) for each in call.sent]
    assert (sent.desired.service_id, sent.desired.sequence) == (WEB.id, 2)
    assert other.sent == []
