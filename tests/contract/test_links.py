"""Guarantees of every transport of the link to the mux."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from core.mux.codec import END, MAX_OPEN, Open
from core.mux.mux import GONE, Mux
from core.rpc.implementations import GrpcImplementation
from core.runtime.clock import SystemClock
from tests.fakes.clock import FakeClock
from tests.fakes.links import Ends, call_ends, memory_ends
from tests.fakes.tunnel import RecordingOwner

REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"ann", b"r" * 16)
TRANSPORTS = {
    "memory": memory_ends,
    "http2": partial(call_ends, hub=GrpcImplementation.HTTP2, agent=GrpcImplementation.HTTP2),
    "http2 to grpcio": partial(
        call_ends, hub=GrpcImplementation.GRPCIO, agent=GrpcImplementation.HTTP2
    ),
    "grpcio to http2": partial(
        call_ends, hub=GrpcImplementation.HTTP2, agent=GrpcImplementation.GRPCIO
    ),
    "grpcio": partial(call_ends, hub=GrpcImplementation.GRPCIO, agent=GrpcImplementation.GRPCIO),
    "websocket": partial(
        call_ends, hub=GrpcImplementation.HTTP2, agent=GrpcImplementation.HTTP2, websocket=True
    ),
}


@pytest.fixture(params=sorted(TRANSPORTS))
def transport(request: pytest.FixtureRequest) -> Callable:
    """Connects two ends."""
    return TRANSPORTS[request.param]


@pytest.fixture
async def ends(transport: Callable) -> AsyncIterator[Ends]:
    """Two connected ends."""
    async with transport(SystemClock()) as connected:
        yield connected


async def eventually(condition: Callable[[], object], seconds: float = 10.0) -> None:
    """Wait until it holds; TimeoutError if it never does."""
    async with asyncio.timeout(seconds):
        while not condition():
            await asyncio.sleep(0.005)


def opened(hub: Mux, request: Open = REQUEST) -> RecordingOwner:
    """A new stream, seen from the hub."""
    owner = RecordingOwner()
    owner.stream = hub.open(owner, request, tenant=b"ann")
    return owner


async def accepted(ends: Ends, owner: RecordingOwner) -> RecordingOwner:
    """The same stream, seen from the agent."""
    await eventually(lambda: owner.stream.id in ends.agent_owner.accepted)
    return ends.agent_owner.accepted[owner.stream.id]


async def test_bytes_arrive_whole_and_in_order_both_ways(ends: Ends) -> None:
    """Pieces of every size, several streams at once, each to its end."""
    choice = random.Random(4)
    pairs = []
    for _ in range(5):
        here = opened(ends.hub)
        pairs.append((here, await accepted(ends, here)))
    sent = [[b"", b""] for _ in pairs]
    for _ in range(60):
        number, side = choice.randrange(5), choice.randrange(2)
        piece = choice.randbytes(choice.choice([0, 1, 700, 9_000, 70_000]))
        pairs[number][side].stream.send(piece)
        sent[number][side] += piece
        await asyncio.sleep(0)
    for here, there in pairs:
        here.stream.send(b"", END)
        there.stream.send(b"", END)
    await eventually(lambda: all(h.ended is not None and t.ended is not None for h, t in pairs))
    for (here, there), (down, up) in zip(pairs, sent, strict=True):
        assert (there.received, here.received) == (down, up)
    assert not ends.hub.streams and not ends.agent.streams


async def test_a_peer_that_does_not_read_holds_up_the_sender(ends: Ends) -> None:
    """Bytes in flight are bounded; the rest waits in the mux and goes on when the peer does."""
    here = opened(ends.hub)
    there = await accepted(ends, here)
    ends.pause()
    data = random.Random(5).randbytes(3 << 20)
    for at in range(0, len(data), 64 << 10):
        here.stream.send(data[at : at + (64 << 10)])
    await asyncio.sleep(0.2)
    assert here.stream.backlogged > 2 << 20
    assert not there.received
    ends.go_on()
    await eventually(lambda: len(there.received) == len(data))
    assert there.received == data


async def test_the_largest_frames_pass(ends: Ends) -> None:
    """An OPEN of the largest size, with the identity and head that it may have."""
    head = b"GET /" + b"x" * (64 << 10) + b" HTTP/1.1\r\n\r\n"
    request = Open(head, b"i" * (MAX_OPEN - len(head) - 100), b"r" * 16)
    here = opened(ends.hub, request)
    await accepted(ends, here)
    seen = ends.agent_owner.requests[here.stream.id]
    assert (seen.head, seen.identity) == (request.head, request.identity)


@pytest.mark.parametrize("end", ["hub", "agent", "line"])
async def test_both_sides_and_every_stream_learn_that_the_link_ended(ends: Ends, end: str) -> None:
    """Whether a side closes it or the line is cut."""
    here = opened(ends.hub)
    there = await accepted(ends, here)
    match end:
        case "hub":
            ends.hub.close("enough")
        case "agent":
            ends.agent.close("enough")
        case _:
            ends.cut()
    await eventually(lambda: ends.hub_owner.closed_for and ends.agent_owner.closed_for)
    assert here.reset[0] == there.reset[0] == GONE
    assert not ends.hub.streams and not ends.agent.streams
    closed = {"hub": ends.hub_owner, "agent": ends.agent_owner}.get(end)
    assert closed is None or closed.closed_for == "enough"


async def test_a_dead_line_is_noticed_within_26_seconds(transport: Callable) -> None:
    """Half-open: nothing comes any more, and nobody has closed anything."""
    clock = FakeClock()
    async with transport(clock) as ends:
        here = opened(ends.hub)
        await accepted(ends, here)
        ends.pause()
        for _ in range(26):
            await clock.advance(1)
        reasons = (ends.hub_owner.closed_for, ends.agent_owner.closed_for)
        assert any("no data" in reason for reason in reasons if reason)
