"""What one replica asks the others about themselves, over links like those between replicas."""

import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.errors import LimitExceeded, NotFound, Unavailable
from core.identity import ClusterId
from core.mux.budget import ReceiveBudget
from core.mux.codec import END, KIND_REPLICA_REQUEST, Open
from core.mux.mux import Mux
from core.open_streams import ALL_STREAMS, MAX_LISTED_STREAMS, StreamFilter
from core.runtime.clock import SystemClock
from proxy.domain.limits import Load, StreamLimits
from proxy.domain.link_location import LinkLocation, PeerReplica
from proxy.gateway.record.open_requests import OpenRequests
from proxy.replicas import client
from proxy.replicas.client import ReplicaClient
from proxy.replicas.links import ReplicaLinks
from proxy.replicas.messages import MAX_QUESTION, QUESTION, EndStream
from proxy.replicas.relay import Relay
from proxy.replicas.server import QuestionServer
from proxy.replicas.shared_limits import SharedLimits
from tests.fakes.insight import FakeInsight, a_stream
from tests.fakes.tls import TestAuthority
from tests.fakes.tunnel import RecordingOwner
from tests.integration.proxy.stack import eventually


@dataclass
class Known:
    """A registry that knows neighbours only."""

    others: list[PeerReplica]

    async def other_replicas(self) -> Sequence[PeerReplica]:
        return self.others

    async def claim(self, cluster_id: ClusterId, instance: str, peer: str) -> int:
        raise AssertionError("nobody claims here")

    async def release(self, cluster_id: ClusterId, epoch: int) -> None:
        raise AssertionError("nobody claims here")

    async def locate(self, cluster_id: ClusterId) -> LinkLocation | None:
        return None

    async def moved_links(self, held: Mapping[ClusterId, int]) -> Mapping[ClusterId, LinkLocation]:
        return {}


class Nothing:
    """Holds no agent."""

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        return None


@dataclass
class Trio:
    """A replica that asks, and two that answer."""

    asker: ReplicaLinks
    replica_client: ReplicaClient
    registry: Known
    insights: list[FakeInsight]
    addresses: list[str]


@asynccontextmanager
async def replicas(authority: TestAuthority) -> AsyncGenerator[Trio]:
    server, client = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), authority.client_context()
    server.load_cert_chain(authority.certificate, authority.key)
    asker, *others = (
        ReplicaLinks(server, client, ReceiveBudget(1 << 20), SystemClock()) for _ in range(3)
    )
    insights, addresses = [FakeInsight(), FakeInsight()], []
    for insight, peers in zip(insights, others, strict=True):
        relay = Relay(Nothing(), 10, QuestionServer(insight, peers.tasks))
        addresses.append(f"127.0.0.1:{await peers.listen('127.0.0.1', 0, relay)}")
    registry = Known([PeerReplica(at, at) for at in addresses])
    try:
        yield Trio(asker, ReplicaClient(registry, asker), registry, insights, addresses)
    finally:
        for peers in (asker, *others):
            await peers.stop()


@pytest.fixture
async def trio(authority: TestAuthority) -> AsyncIterator[Trio]:
    async with replicas(authority) as three:
        yield three


async def test_requests_of_all_replicas_are_found_and_ended_where_they_are(trio: Trio) -> None:
    """Longest open first, each with where it is; another replica's is not ended here."""
    (first, second), (here, there) = trio.insights, trio.addresses
    first.streams = [a_stream("b" * 32, minute=2)]
    second.streams = [a_stream("a" * 32, minute=1), a_stream("c" * 32, minute=3)]
    found = await trio.replica_client.streams(ALL_STREAMS)
    assert [(one.id[0], one.replica) for one in found.streams] == [
        ("a", there),
        ("b", here),
        ("c", there),
    ]
    assert found.silent == ()
    assert replace(found.streams[1], replica="") == first.streams[0]
    assert await trio.replica_client.end(there, "c" * 32, "root")
    assert not await trio.replica_client.end(here, "c" * 32, "root")
    assert (first.ended, second.ended) == ([], [("c" * 32, "root")])


async def test_limits_count_what_is_open_in_all_replicas(trio: Trio) -> None:
    """Summed up over those that answer; without them, limits are a replica's own again."""
    requests = OpenRequests(StreamLimits(per_user=8, per_user_and_cluster=5))
    limits = SharedLimits(requests, trio.replica_client, SystemClock())
    for insight in trio.insights:
        insight.busy = {"ann": Load(2, {"dev": 2}), "ben": Load(9, {"dev": 9})}
    requests.enter("ann", "dev", upgrade=False)
    await limits.update()
    with pytest.raises(LimitExceeded, match='5 requests open for "ann" on "dev"'):
        requests.enter("ann", "dev", upgrade=False)
    for _ in range(3):
        requests.enter("ann", "prod", upgrade=False)
    with pytest.raises(LimitExceeded, match='8 requests open for "ann"'):
        requests.enter("ann", "test", upgrade=False)
    trio.registry.others = []
    await limits.update()
    requests.enter("ann", "dev", upgrade=False)


async def test_a_limit_of_a_project_counts_what_is_open_in_all_replicas(trio: Trio) -> None:
    """Each of its requests is reported, because a project may have few."""
    shop = (("shop", 4),)
    there = OpenRequests(StreamLimits())
    for user in ("ann", "ben"):
        there.enter(user, "dev", upgrade=False, projects=shop)
    trio.insights[0].busy = there.loads()
    requests = OpenRequests(StreamLimits())
    limits = SharedLimits(requests, trio.replica_client, SystemClock())
    for _ in range(2):
        requests.enter("cyd", "dev", upgrade=False, projects=shop)
        await limits.update()
    with pytest.raises(LimitExceeded, match='4 requests open in project "shop", which may have 4'):
        requests.enter("cyd", "dev", upgrade=False, projects=shop)
    requests.enter("cyd", "dev", upgrade=False)


async def test_nobody_is_asked_while_nobody_has_much_open(trio: Trio) -> None:
    """An idle installation sends nothing, and loads reported before count no more."""
    requests = OpenRequests(StreamLimits(per_user_and_cluster=32))
    limits = SharedLimits(requests, trio.replica_client, SystemClock())
    trio.insights[0].busy = {"ann": Load(32, {"dev": 32})}
    requests.enter("ann", "dev", upgrade=False)
    await limits.update()
    requests.enter("ann", "dev", upgrade=False)
    await limits.update()
    with pytest.raises(LimitExceeded):
        requests.enter("ann", "dev", upgrade=False)
    requests.leave("ann", "dev")
    await limits.update()
    requests.enter("ann", "dev", upgrade=False)


async def test_only_what_may_be_seen_leaves_a_replica(trio: Trio) -> None:
    first = trio.insights[0]
    first.streams = [
        a_stream("1" * 32, user="ann", cluster="c1"),
        a_stream("2" * 32, user="ben", cluster="c1"),
        a_stream("3" * 32, user="ben", cluster="c2"),
    ]

    async def ids(wanted: StreamFilter) -> list[str]:
        return [one.id[0] for one in (await trio.replica_client.streams(wanted)).streams]

    assert await ids(StreamFilter(owner="id-ann", clusters=())) == ["1"]
    assert await ids(StreamFilter(owner="id-ann", clusters=(ClusterId("c2"),))) == ["1", "3"]
    assert await ids(StreamFilter(user="ben", handle="handle-c1")) == ["2"]
    assert await ids(StreamFilter(id="3" * 32, owner="id-ann", clusters=())) == []


async def test_a_replica_that_does_not_answer_is_named(
    trio: Trio, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An absent or silent replica is named; the others still answer."""
    monkeypatch.setattr(client, "ANSWER_SECONDS", 0.3)
    first, second = trio.insights
    second.streams = [a_stream("a" * 32)]
    trio.registry.others.append(PeerReplica("gone", "127.0.0.1:1"))

    async def never(id: str, offset: int, most: int) -> None:
        await SystemClock().sleep(60)

    monkeypatch.setattr(first, "recording", never)
    found = await trio.replica_client.streams(ALL_STREAMS)
    assert (len(found.streams), found.silent) == (1, ("127.0.0.1:1",))
    with pytest.raises(Unavailable, match=trio.addresses[0]):
        await trio.replica_client.recording("f" * 32, 0, 10)
    with pytest.raises(Unavailable):
        await trio.replica_client.end("127.0.0.1:1", "a" * 32, "root")


async def test_a_recording_is_read_wherever_it_is_kept(trio: Trio) -> None:
    text = b'{"version":2}\n' + b'[1.0,"o","x"]\n' * 30_000
    trio.insights[1].recordings["e" * 32] = text
    data, offset = b"", 0
    while offset is not None:
        part = await trio.replica_client.recording("e" * 32, offset, 256 << 10)
        data, offset = data + part.data, part.next
    assert data == text
    with pytest.raises(NotFound):
        await trio.replica_client.recording("f" * 32, 0, 10)


async def test_a_long_list_is_cut_and_arrives(trio: Trio) -> None:
    trio.insights[0].streams = [
        a_stream(f"{n:032x}", minute=-n) for n in range(2 * MAX_LISTED_STREAMS)
    ]
    found = await trio.replica_client.streams(ALL_STREAMS)
    assert len(found.streams) == MAX_LISTED_STREAMS
    assert int(found.streams[0].id, 16) == 2 * MAX_LISTED_STREAMS - 1


@pytest.mark.parametrize("text", [b"", b"[]", b'{"ask":"all"}', b"x" * (MAX_QUESTION + 1)])
async def test_malformed_replica_requests_are_refused(trio: Trio, text: bytes) -> None:
    """And the link goes on."""
    link = await trio.asker.link(trio.addresses[0])
    owner = RecordingOwner()
    stream = link.open(
        owner, Open(b"", b"", b"q" * 16, kind=KIND_REPLICA_REQUEST), tenant=b"replica"
    )
    stream.send(text, END)
    await eventually(lambda: owner.reset is not None)
    assert await trio.replica_client.end(trio.addresses[0], "a" * 32, "root") is False


@given(st.text(max_size=40), st.text(max_size=40))
def test_a_question_is_read_as_it_was_written(id: str, by: str) -> None:
    asked = EndStream(id, by)
    assert QUESTION.validate_json(QUESTION.dump_json(asked)) == asked
