"""A request between replicas: what it says, where it ends, and when it is sent once more."""

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.identity import ClusterId
from core.mux.budget import ReceiveBudget
from core.mux.codec import (
    END,
    FEATURE_PROOF,
    KIND_HTTP,
    KIND_TCP,
    Hello,
    Open,
    ProtocolError,
    add_proof,
)
from core.mux.mux import Mux, MuxOwner, MuxSettings, MuxTime
from core.runtime.tasks import Tasks
from proxy.domain.link_location import LinkLocation
from proxy.ports import AgentRoute
from proxy.replicas.forward import RemoteAgentRoute
from proxy.replicas.forward_header import ForwardedRequest, unwrap, wrap
from proxy.replicas.relay import Relay
from proxy.replicas.server import QuestionServer
from tests.fakes.insight import FakeInsight
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner, RecordingOwner

CLUSTER = ClusterId("c1")
SMALL = MuxSettings(window=4096, small_window=4096, max_window=4096)
REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"Impersonate-User: ann\r\n", b"r" * 16)


@given(
    st.text(st.characters(max_codepoint=127), max_size=64),
    st.integers(0, 2**64 - 1),
    st.binary(max_size=200),
    st.sampled_from([KIND_HTTP, KIND_TCP]),
)
def test_a_passage_is_read_as_it_was_written(name: str, epoch: int, head: bytes, kind: int) -> None:
    request = Open(head, b"id", b"r" * 16, flags=3, kind=kind)
    wrapped = Open.unpack(wrap(ClusterId(name), epoch, request).pack(7))
    passage = unwrap(wrapped)
    assert (passage.cluster_id, passage.epoch) == (name, epoch)
    assert passage.request == Open(head, b"id", b"r" * 16, flags=3, window=7, kind=kind)


@given(st.integers(0, 255), st.binary(max_size=80))
def test_garbage_is_no_passage_or_a_whole_one(kind: int, head: bytes) -> None:
    try:
        assert isinstance(unwrap(Open(head, b"", b"r" * 16, kind=kind)), ForwardedRequest)
    except ProtocolError:
        pass


class Pair:
    """Two muxes and what lies between them."""

    def __init__(
        self, loop: ManualLoop, hub_owner: MuxOwner, far_owner: MuxOwner, features: int = 0
    ) -> None:
        self._features = features
        self.links = MemoryLink(), MemoryLink()
        self.hub = self._mux(loop, self.links[0], hub_owner, hub=True)
        self.far = self._mux(loop, self.links[1], far_owner, hub=False)
        self.links[0].mux, self.links[1].mux = self.hub, self.far

    def _mux(self, loop: ManualLoop, link: MemoryLink, owner: MuxOwner, *, hub: bool) -> Mux:
        return Mux(
            link,
            owner,
            hub=hub,
            hello=Hello(b"h" * 16, SMALL.window, features=0 if hub else self._features),
            time=MuxTime(loop, loop),
            budget=ReceiveBudget(1 << 20),
            settings=SMALL,
        )

    def move(self) -> bool:
        """Deliver what waits; whether there was anything."""
        moved = False
        for link, other in ((self.links[0], self.far), (self.links[1], self.hub)):
            while link.sent:
                link.deliver(other)
                moved = True
        return moved


class Two:
    """A replica that asks, one that holds the agent with epoch 5, and the agent."""

    def __init__(self, features: int = 0) -> None:
        self.loop = ManualLoop()
        self.agent = RecordingMuxOwner()
        self.tasks = Tasks("test")
        self.to_agent = Pair(self.loop, RecordingMuxOwner(), self.agent, features)
        self.between = Pair(
            self.loop,
            RecordingMuxOwner(),
            Relay(self, 100, QuestionServer(FakeInsight(), self.tasks)),
        )
        self.elsewhere: AgentRoute | None = None
        self.asked: list[int] = []
        self.settle()

    def find_epoch(self, cluster_id: ClusterId, epoch: int) -> Mux | None:
        return self.to_agent.hub if (cluster_id, epoch) == (CLUSTER, 5) else None

    async def again(self, cluster_id: ClusterId, place: LinkLocation) -> AgentRoute | None:
        self.asked.append(place.epoch)
        return self.elsewhere

    def way(self, epoch: int = 5) -> RemoteAgentRoute:
        place = LinkLocation("b", "b:1", epoch)
        return RemoteAgentRoute(self.between.hub, CLUSTER, place, self.again, self.tasks)

    def settle(self) -> None:
        for _ in range(200):
            self.loop.run()
            self.loop.advance(0.001)
            moved = [pair.move() for pair in (self.between, self.to_agent)]
            if not any(moved) and self.loop.idle:
                return


def test_a_request_and_its_answer_cross_whole() -> None:
    two, user = Two(), RecordingOwner()
    channel = two.way().open(user, REQUEST, tenant=b"ann")
    channel.send(b"body", END)
    two.settle()
    (request,), (served,) = two.agent.requests.values(), two.agent.accepted.values()
    assert (request.head, request.identity, request.kind) == (
        REQUEST.head,
        REQUEST.identity,
        KIND_HTTP,
    )
    assert (served.received, served.ended) == (b"body", False)
    assert served.stream is not None
    served.stream.send(b"answer", END)
    two.settle()
    assert (user.received, user.ended) == (b"answer", False)
    assert not two.between.far.streams and not two.to_agent.hub.streams


@pytest.mark.parametrize("features", [0, FEATURE_PROOF])
def test_a_proof_crosses_to_agents_that_verify_it_only(features: int) -> None:
    """The replica that asks does not know the agent; the one that holds its link does."""
    two = Two(features)
    way = two.way()
    assert way.features & FEATURE_PROOF
    proven = add_proof(REQUEST.identity, b"a.b.c")
    way.open(RecordingOwner(), Open(REQUEST.head, proven, b"r" * 16), tenant=b"ann")
    two.settle()
    (request,) = two.agent.requests.values()
    assert request.identity == (proven if features else REQUEST.identity)


def test_credit_reaches_from_end_to_end() -> None:
    """A reader who reads nothing stops the agent; no more than windows wait between them."""
    two, user = Two(), RecordingOwner()
    channel = two.way().open(user, REQUEST, tenant=b"ann")
    two.settle()
    (served,) = two.agent.accepted.values()
    assert served.stream is not None
    served.stream.send(b"x" * 100_000, END)
    two.settle()
    arrived = len(user.received)
    assert arrived == SMALL.window
    assert 100_000 - served.stream.backlogged <= 3 * SMALL.window
    while user.unconsumed:
        size, user.unconsumed = user.unconsumed, 0
        channel.consumed(size)
        two.settle()
    assert (len(user.received), user.ended) == (100_000, False)


def test_either_end_cuts_the_other_off() -> None:
    two, user = Two(), RecordingOwner()
    two.way().open(user, REQUEST, tenant=b"ann").reset()
    two.settle()
    assert not two.to_agent.far.streams
    two.way().open(user, REQUEST, tenant=b"ann")
    two.settle()
    (stream,) = two.to_agent.far.streams.values()
    stream.reset(502, "no API server")
    two.settle()
    assert user.reset == (502, "no API server")


async def test_a_stale_epoch_reaches_nothing_and_is_sent_once_more() -> None:
    """With all that was sent already, in order, wherever the agent is now."""
    two, user = Two(), RecordingOwner()
    two.elsewhere = two.way(epoch=5)
    channel = two.way(epoch=4).open(user, REQUEST, tenant=b"ann")
    channel.send(b"first ")
    channel.send(b"second", END)
    two.settle()
    assert two.agent.accepted == {}
    await asyncio.sleep(0)
    assert two.asked == [4]
    two.settle()
    (served,) = two.agent.accepted.values()
    assert (served.received, served.ended) == (b"first second", False)


@pytest.mark.parametrize("elsewhere", [None, 3])
async def test_a_request_to_an_unreachable_agent_is_reset_with_503(elsewhere: int | None) -> None:
    two, user = Two(), RecordingOwner()
    two.elsewhere = two.way(elsewhere).without_retry() if elsewhere else None
    two.way(epoch=4).open(user, REQUEST, tenant=b"ann")
    two.settle()
    await asyncio.sleep(0)
    two.settle()
    assert user.reset is not None and user.reset[0] == 503
    assert two.agent.accepted == {}


async def test_nothing_is_sent_again_for_who_has_left() -> None:
    two, user = Two(), RecordingOwner()
    two.elsewhere = two.way(epoch=5)
    channel = two.way(epoch=4).open(user, REQUEST, tenant=b"ann")
    two.settle()
    channel.reset()
    await asyncio.sleep(0)
    two.settle()
    assert two.asked == [4] and two.agent.accepted == {} and user.reset is None


def test_an_owner_of_many_streams_is_full() -> None:
    two = Two()
    users = [RecordingOwner() for _ in range(101)]
    for user in users:
        two.way().open(user, REQUEST, tenant=b"ann")
    two.settle()
    assert [user.reset for user in users if user.reset] == [(429, "has too many requests open")]
