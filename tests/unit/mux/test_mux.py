"""The mux case by case: turns, credit, liveness, versions, and peers that misbehave."""

from dataclasses import replace
from typing import Any

import pytest

from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import END, Hello, Open, ProtocolError
from core.mux.frame_limit import FRAME_BURST
from core.mux.mux import (
    GONE,
    LANE_LIMIT,
    MAX_COALESCING_TURNS,
    MAX_MESSAGE_BYTES,
    Mux,
    MuxSettings,
    MuxTime,
)
from core.mux.send_queue import MESSAGE, QUANTUM, SMALL
from core.mux.stream import TunnelStream
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner, RecordingOwner

SETTINGS = MuxSettings()
REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"ann", b"r" * 16)
HELLO = Hello(b"p" * 16, SETTINGS.window)


class End:
    """One end; frames of the other are written by hand."""

    def __init__(self, *, hub: bool = True, budget: int = 64 << 20, hello: Hello = HELLO) -> None:
        self.loop = ManualLoop()
        self.link = MemoryLink()
        self.owner = RecordingMuxOwner()
        self.mux = Mux(
            self.link,
            self.owner,
            hub=hub,
            hello=Hello(b"o" * 16, SETTINGS.window),
            time=MuxTime(self.loop, self.loop),
            budget=ReceiveBudget(budget, links=1, tenants=1),
            settings=SETTINGS,
        )
        self.loop.run()
        self.sent()
        # A link that has shown to be fast.
        self.mux._congestion.cap = 256 << 10
        self.receive(0, codec.HELLO, hello.pack())

    def receive(self, stream: int, kind: int, payload: bytes = b"") -> None:
        self.mux.on_message(codec.header(stream, kind, len(payload)) + payload)

    def open(self, tenant: bytes = b"ann") -> RecordingOwner:
        owner = RecordingOwner()
        owner.stream = self.mux.open(owner, REQUEST, tenant=tenant)
        return owner

    def sent(self) -> list[tuple[int, int, bytes]]:
        """Frames sent since the last call, as far as the link takes them."""
        frames = []
        while self.link.sent:
            message = self.link.sent.popleft()
            frames += [(i, kind, message[a:b]) for i, kind, a, b in codec.frames(message)]
            self.mux.on_drain()
            self.loop.run()
        return frames

    def ack_all(self) -> None:
        flight = self.mux._congestion
        self.receive(0, codec.ACK, codec.pack_u32(flight.sent - flight.acked))


def agent_with_stream(**kwargs: Any) -> tuple[End, RecordingOwner]:
    end = End(hub=False, **kwargs)
    end.receive(1, codec.OPEN, REQUEST.pack(1 << 20))
    return end, end.owner.accepted[1]


def test_first_frame_of_a_quiet_tick_goes_at_once_and_the_rest_together() -> None:
    """No delay for the lone request, few messages for many."""
    end = End()
    end.loop.run()
    owners = [end.open() for _ in range(5)]
    assert len(end.link.sent) == 1
    end.link.sent.clear()
    end.loop.run()
    assert len(end.link.sent) == 1
    assert [i for i, *_ in end.sent()] == [one.stream.id for one in owners[1:] if one.stream]


def test_frames_wait_for_others_only_while_more_come() -> None:
    """A message costs as much as several frames; but a wait without end would be a stall."""
    end = End()
    end.loop.run()
    for _ in range(3):
        end.open()
    end.link.sent.clear()
    for _ in range(MAX_COALESCING_TURNS):
        end.loop.turn()
        assert not end.link.sent
        end.open()
    end.loop.turn()
    assert len(end.sent()) == 2 + MAX_COALESCING_TURNS
    assert end.loop.idle


def test_small_frames_overtake_the_bulk_of_others() -> None:
    """A watch event need not wait for a download."""
    end = End()
    bulk, chatty = end.open(), end.open()
    end.loop.run()
    end.sent()
    assert bulk.stream and chatty.stream
    end.link.depth = 0
    bulk.stream.send(b"b" * 100_000)
    chatty.stream.send(b"event")
    end.link.depth = 1
    end.mux.on_drain()
    end.loop.run()
    assert [i for i, *_ in end.sent()][:2] == [chatty.stream.id, bulk.stream.id]


def test_order_inside_a_stream_is_kept_even_when_the_lane_is_overfull() -> None:
    """A stream's bulk waits for its own small frames."""
    end = End()
    chatty = end.open()
    end.loop.run()
    end.sent()
    assert chatty.stream
    end.link.depth = 0
    pieces = [bytes([65 + n]) * SMALL for n in range(9)]
    for piece in pieces:
        chatty.stream.send(piece)
    chatty.stream.send(b"tail" * 5000)
    end.link.depth = 1
    end.mux.on_drain()
    end.loop.run()
    sent = b"".join(data for _, kind, data in end.sent() if kind & 15 == codec.DATA)
    assert sent == b"".join(pieces) + b"tail" * 5000


def test_small_frames_leave_bulk_its_share() -> None:
    """However many small frames wait, bulk gets a part of each message."""
    end = End()
    bulk, chatty = end.open(), end.open()
    end.loop.run()
    end.sent()
    assert bulk.stream and chatty.stream
    end.link.depth = 0
    bulk.stream.send(b"b" * 100_000)
    for _ in range(20):
        chatty.stream.send(b"s" * SMALL)
    end.link.depth = 1
    end.mux.on_drain()
    end.loop.run()
    first = end.link.sent[0]
    ids = {i for i, *_ in codec.frames(first)}
    assert ids == {bulk.stream.id, chatty.stream.id}
    assert len(first) <= MESSAGE * 3 // 4 + QUANTUM + 100


def test_turns_go_by_tenant_before_stream() -> None:
    """Ten streams of one user weigh as much as one stream of another."""
    end = End()
    many = [end.open(b"ann") for _ in range(10)]
    one = end.open(b"bob")
    end.loop.run()
    end.sent()
    end.link.depth = 0
    for owner in (*many, one):
        assert owner.stream
        owner.stream.send(b"x" * (QUANTUM * 3))
    end.link.depth = 1
    end.mux.on_drain()
    order = []
    for _ in range(4):
        end.loop.run()
        order += [i for i, kind, _ in end.sent() if kind & 15 == codec.DATA]
        end.ack_all()
    assert one.stream
    assert order[:6].count(one.stream.id) == 3


def test_bulk_stops_at_the_cap_and_small_frames_pass() -> None:
    """Bytes in flight below the mux are bounded, without holding up commands."""
    end = End()
    bulk = end.open()
    end.loop.run()
    end.sent()
    assert bulk.stream
    end.receive(1, codec.CREDIT, codec.pack_u32(8 << 20))
    bulk.stream.send(b"x" * (2 << 20))
    end.loop.run()
    in_flight = sum(len(data) for _, _, data in end.sent())
    assert in_flight <= end.mux._congestion.cap + QUANTUM
    small = end.open()
    end.loop.run()
    assert [i for i, *_ in end.sent()] == [small.stream.id if small.stream else 0]
    end.ack_all()
    end.loop.run()
    assert sum(len(data) for _, _, data in end.sent()) > QUANTUM


def test_received_bytes_are_acknowledged_in_the_end() -> None:
    """Also those that came too soon after an ACK: the far side may be waiting for it."""
    end, _ = agent_with_stream()
    end.sent()
    for _ in range(2):
        for _ in range(2):
            end.receive(1, codec.DATA, b"x" * (32 << 10))
    end.loop.run()
    before = [kind for _, kind, _ in end.sent()].count(codec.ACK)
    end.loop.advance(0.002)
    end.loop.run()
    end.loop.run()
    acked = end.sent()
    assert before == 1
    assert [kind for _, kind, _ in acked] == [codec.ACK]


def test_credit_wakes_a_blocked_sender() -> None:
    """`send` says False when the window is used up; CREDIT wakes the owner once."""
    end = End()
    owner = end.open()
    assert owner.stream
    assert owner.stream.send(b"x" * 1000)
    owner.may_send = owner.stream.send(b"x" * SETTINGS.window)
    assert not owner.may_send
    end.receive(1, codec.CREDIT, codec.pack_u32(1 << 20))
    assert owner.may_send


@pytest.mark.parametrize("size", [100, SMALL + 100], ids=["small", "bulk"])
def test_only_the_frame_that_uses_up_the_credit_says_so(size: int) -> None:
    """The receiver grows the window of a sender that could send more."""
    end = End(hello=replace(HELLO, window=2 * size))
    owner = end.open()
    assert owner.stream
    end.sent()
    for expected in (codec.DATA, codec.DATA | codec.STARVED):
        owner.stream.send(b"x" * size)
        end.loop.run()
        assert [kind for _, kind, _ in end.sent()] == [expected]


def test_bulk_of_all_streams_together_is_bounded() -> None:
    """Streams with bulk pause while too much waits for the link, and go on later."""
    end = End()
    owners = [end.open(bytes([n])) for n in range(20)]
    for owner in owners:
        assert owner.stream
        end.receive(owner.stream.id, codec.CREDIT, codec.pack_u32(1 << 20))
    end.link.depth = 0
    for owner in owners:
        assert owner.stream
        owner.may_send = owner.stream.send(b"x" * (200 << 10))
    assert not owners[-1].may_send
    end.link.depth = 1
    end.mux.on_drain()
    for _ in range(200):
        end.sent()
        end.ack_all()
        end.loop.advance(0.01)
        end.loop.run()
    assert all(owner.may_send for owner in owners[-8:])


def receive_window(end: End, stream: TunnelStream) -> None:
    """Receives as much as the sender may send; its last frame says that it could send more."""
    while stream.granted > codec.MAX_FRAME:
        end.receive(1, codec.DATA, b"x" * codec.MAX_FRAME)
    end.receive(1, codec.DATA | codec.STARVED, b"x" * stream.granted)


def granted(end: End) -> list[int]:
    end.loop.run()
    return [codec.unpack_u32(data) for _, kind, data in end.sent() if kind == codec.CREDIT]


def test_window_grows_up_to_its_maximum_while_everything_is_read() -> None:
    """A far sender soon fills the line."""
    end, owner = agent_with_stream()
    stream = owner.stream
    assert stream
    granted(end)
    for windows in (4, 16, 32, 32):
        receive_window(end, stream)
        owner.consume(stream.held)
        assert granted(end) == [windows * SETTINGS.window]
    assert stream.window == SETTINGS.max_window


def test_window_of_a_reader_with_unread_data_does_not_grow() -> None:
    """A larger one would only hold more memory; the sender gets credit for what was read."""
    end, owner = agent_with_stream()
    stream = owner.stream
    assert stream
    granted(end)
    receive_window(end, stream)
    owner.consume(SETTINGS.window - 1)
    assert granted(end) == [SETTINGS.window - 1]
    assert stream.window == SETTINGS.window


def test_a_sender_without_credit_gets_it_once_everything_is_read() -> None:
    """The rest that was read may be too small to be worth a frame otherwise."""
    end, owner = agent_with_stream()
    stream = owner.stream
    assert stream
    granted(end)
    end.receive(1, codec.DATA, b"x" * 1000)
    owner.consume(1000)
    assert granted(end) == []
    end.receive(1, codec.DATA | codec.STARVED, b"x" * 1000)
    owner.consume(1000)
    assert granted(end) == [2000 + 3 * SETTINGS.window]


def test_no_window_grows_while_memory_is_short() -> None:
    """The sender gets credit for what was read, and no more."""
    end, owner = agent_with_stream(budget=512 << 10)
    end.receive(3, codec.OPEN, REQUEST.pack(1 << 20))
    for _ in range(4):
        end.receive(3, codec.DATA, b"x" * codec.MAX_FRAME)
    stream = owner.stream
    assert stream
    granted(end)
    receive_window(end, stream)
    owner.consume(stream.held)
    assert granted(end) == [SETTINGS.window]
    assert stream.window == SETTINGS.window


def test_a_stream_that_is_over_lets_go_of_its_owner() -> None:
    """Both are freed at once; the owner was notified before, and hears nothing after."""
    end, owner = agent_with_stream()
    assert owner.stream
    stream = owner.stream
    end.receive(1, codec.DATA | codec.END, b"all of it")
    assert stream.owner is owner
    stream.send(b"answer", codec.END)
    assert stream.closed
    assert owner.ended is False
    assert stream.owner is not owner
    stream.owner.on_reset(502, "nobody hears this")
    assert owner.reset is None


def test_no_credit_for_what_is_not_written_out() -> None:
    """Memory never follows a slow reader."""
    end, owner = agent_with_stream()
    end.sent()
    for _ in range(4):
        end.receive(1, codec.DATA, b"x" * (64 << 10))
    end.loop.run()
    assert [kind for _, kind, _ in end.sent() if kind == codec.CREDIT] == []
    assert end.mux.budget.used == 256 << 10
    owner.consume(256 << 10)
    assert end.mux.budget.used == 0


def test_the_largest_holder_is_reset_when_memory_is_short() -> None:
    """429 for the stream that holds most; the others go on."""
    end, big = agent_with_stream(budget=200 << 10)
    end.receive(3, codec.OPEN, REQUEST.pack(1 << 20))
    small = end.owner.accepted[3]
    end.receive(3, codec.DATA, b"x" * (60 << 10))
    for _ in range(3):
        end.receive(1, codec.DATA, b"x" * (50 << 10))
    assert big.reset is not None
    assert big.reset[0] == 429
    assert small.reset is None
    assert end.mux.budget.used == 60 << 10


@pytest.mark.parametrize(
    ("hub", "stream", "kind", "payload"),
    [
        (True, 1, codec.OPEN, REQUEST.pack(1)),
        (True, 1, codec.DATA, b"x"),
        (True, 2, codec.DATA, b"x"),
        (True, 0, codec.DATA, b"x"),
        (True, 0, codec.HELLO, HELLO.pack()),
        (True, 0, codec.ACK, codec.pack_u32(1 << 30)),
        (True, 0, codec.ACK, b"x"),
        (True, 0, codec.PING, b"x"),
        (True, 0, 12, b""),
        (True, 0, codec.PING | codec.COMPRESSED, b"12345678"),
        (True, 1, 9, b""),
        (False, 2, codec.OPEN, REQUEST.pack(1)),
        (False, 1, codec.OPEN, b"short"),
        (False, 3, codec.CREDIT, codec.pack_u32(1)),
    ],
)
def test_frames_no_honest_peer_sends_close_the_link(
    hub: bool, stream: int, kind: int, payload: bytes
) -> None:
    """Foreign, future and even ids, wrong directions, wrong sizes."""
    end = End(hub=hub)
    end.receive(stream, kind, payload)
    assert end.owner.closed_for is not None
    assert end.owner.closed_for.startswith("protocol error")
    assert end.link.closed_for == end.owner.closed_for


def test_an_even_id_between_open_ones_closes_the_link() -> None:
    """Even ids are nobody's."""
    end = End()
    end.open(), end.open()
    end.receive(2, codec.DATA, b"x")
    assert end.owner.closed_for == "protocol error: frame of type 2 for stream 2"


def test_credit_cannot_overflow() -> None:
    """A window has a bound, whatever the far side grants."""
    end = End()
    end.open()
    for _ in range(3):
        end.receive(1, codec.CREDIT, codec.pack_u32(1 << 29))
    assert end.owner.closed_for == "protocol error: the credit is too large"


def test_a_reused_id_closes_the_link() -> None:
    """Ids only rise."""
    end, _ = agent_with_stream()
    end.receive(1, codec.RESET, codec.pack_reset(0, ""))
    end.receive(1, codec.OPEN, REQUEST.pack(1))
    assert end.owner.closed_for == "protocol error: OPEN with id 1 after 1"


def test_frames_for_a_closed_stream_are_dropped() -> None:
    """They cross with a RESET on the way."""
    end = End()
    owner = end.open()
    assert owner.stream
    owner.stream.reset()
    for kind, payload in ((codec.DATA, b"x"), (codec.CREDIT, codec.pack_u32(1))):
        end.receive(1, kind, payload)
    assert end.owner.closed_for is None
    assert owner.received == b""


def test_data_beyond_credit_resets_the_stream_and_the_third_time_the_link() -> None:
    """A sender is never trusted to keep its window."""
    end = End()
    owners = [end.open() for _ in range(3)]
    for number, owner in enumerate(owners):
        for _ in range(SETTINGS.window // codec.MAX_FRAME + 1):
            end.receive(2 * number + 1, codec.DATA, b"x" * codec.MAX_FRAME)
        assert owner.reset is not None
    assert owners[0].reset == (codec.FLOW, "data beyond credit")
    assert end.owner.closed_for is not None


def test_data_after_the_end_resets_the_stream() -> None:
    """Half-closed means closed for data."""
    end = End()
    owner = end.open()
    end.receive(1, codec.DATA | END, b"last")
    end.receive(1, codec.DATA, b"more")
    assert (owner.received, owner.ended) == (b"last", False)
    assert owner.reset == (codec.PROTOCOL, "data after the end of the stream")


def test_versions_are_negotiated() -> None:
    """A newer peer that still speaks ours is fine; the refusal of another names both ranges."""
    assert End(hello=replace(HELLO, lowest=1, highest=2)).owner.ready is not None
    strange = End(hello=replace(HELLO, lowest=2, highest=3))
    assert strange.owner.closed_for == "protocol error: no common version: 2-3 there, 1-1 here"


def test_unknown_link_frames_are_ignored() -> None:
    """Room to grow."""
    end = End()
    end.receive(0, 8, b"from a newer version")
    assert end.owner.closed_for is None


def test_silent_peer_is_asked_and_then_given_up() -> None:
    """PING after 10 s; dead after 25 s, with every stream."""
    end = End()
    owner = end.open()
    end.loop.run()
    end.sent()
    end.loop.advance(9)
    end.mux.beat()
    end.loop.run()
    assert end.sent() == []
    end.loop.advance(2)
    end.mux.beat()
    end.mux.beat()
    end.loop.run()
    assert [kind for _, kind, _ in end.sent()] == [codec.PING]
    end.receive(0, codec.PING | END, b"\0" * 8)
    end.loop.advance(24)
    end.mux.beat()
    assert end.owner.closed_for is None
    end.loop.advance(2)
    end.mux.beat()
    assert end.owner.closed_for == "no data from the peer for 26 s"
    assert owner.reset == (GONE, "no data from the peer for 26 s")


def test_pings_of_a_peer_that_does_not_read_close_the_link() -> None:
    """The queue for that peer is bounded, however slowly pings come."""
    end = End()
    end.link.depth = 0
    for _ in range(LANE_LIMIT // 8 // 16 + 1):
        end.mux.on_message((codec.header(0, codec.PING, 8) + b"12345678") * 16)
        end.loop.advance(0.5)
    assert end.owner.closed_for == "protocol error: the peer sends PINGs but reads no data"


SLIGHT_FRAMES = {
    "unknown": (0, codec.UNKNOWN_FIRST, b""),
    "PING": (0, codec.PING, b"p" * 8),
    "unasked answer": (0, codec.PING | END, b"p" * 8),
    "DRAIN": (0, codec.DRAIN, b"d" * 8),
    "ACK": (0, codec.ACK, codec.pack_u32(0)),
    "CREDIT": (1, codec.CREDIT, codec.pack_u32(0)),
    "DATA": (1, codec.DATA, b""),
    "closed": (3, codec.DATA | END, b""),
}


@pytest.mark.parametrize("name", SLIGHT_FRAMES)
def test_a_flood_of_frames_that_carry_nothing_closes_the_link(name: str) -> None:
    """Each costs as much time as one that carries something, and no window bounds them."""
    stream, kind, payload = SLIGHT_FRAMES[name]
    end = End()
    end.open()
    end.open()
    end.receive(3, codec.RESET, codec.pack_reset(codec.CANCELLED, ""))
    frame = codec.header(stream, kind, len(payload)) + payload
    message = frame * (MESSAGE // len(frame))
    sent = 0
    while not end.mux.closed and sent < 2 * FRAME_BURST:
        end.mux.on_message(message)
        end.sent()
        sent += MESSAGE // len(frame)
    assert end.owner.closed_for == "protocol error: too many frames with little payload"
    assert sent <= FRAME_BURST + MESSAGE // len(frame)


def test_slight_frames_of_an_honest_peer_never_close_a_link() -> None:
    """Ten thousand streams that end at once, and as many words a second for an hour."""
    end = End()
    for _ in range(10_000):
        end.open()
    for number in range(1, 20_000, 2):
        end.receive(number, codec.RESET, codec.pack_reset(codec.CANCELLED, ""))
    end.open()
    for _ in range(60):
        end.loop.advance(60.0)
        for _ in range(2_000):
            end.receive(20_001, codec.CREDIT, codec.pack_u32(1))
        end.receive(0, codec.PING, b"p" * 8)
        end.sent()
    assert not end.mux.closed


def test_a_message_that_no_peer_would_write_closes_the_link() -> None:
    """Its frames would hold up all other links while they are read."""
    end = End()
    end.mux.on_message(codec.header(0, codec.UNKNOWN_FIRST, 0) * (MAX_MESSAGE_BYTES // 8 + 1))
    assert end.owner.closed_for.startswith("protocol error: a message of")


def test_small_frames_for_a_link_that_does_not_move_are_bounded() -> None:
    """Streams have to wait, and go on when it moves."""
    end = End()
    owners = [end.open() for _ in range(40)]
    end.link.depth = 0
    for _ in range(8):
        for owner in owners:
            if owner.may_send and owner.stream:
                owner.may_send = owner.stream.send(b"s" * SMALL)
    assert end.mux.crowded
    assert not any(owner.may_send for owner in owners)
    end.link.depth = 1
    end.mux.on_drain()
    for _ in range(10):
        end.loop.run()
        end.sent()
    assert all(owner.may_send for owner in owners)


def test_drain_reaches_the_owner_and_refuses_new_streams() -> None:
    """Open streams go on."""
    end = End()
    owner = end.open()
    end.mux.drain(5000, "restarting")
    assert not end.mux.accepts_streams
    end.receive(1, codec.DATA, b"still here")
    assert owner.received == b"still here"
    agent, _ = agent_with_stream()
    agent.receive(0, codec.DRAIN, codec.Drain(1, 5000, "restarting").pack())
    assert agent.owner.hand_over == codec.Drain(1, 5000, "restarting")
    assert not agent.mux.accepts_streams


def test_nothing_opens_before_hello_or_after_the_end() -> None:
    """An honest caller gets the error at once."""
    end = End()
    end.mux.close("over")
    with pytest.raises(ProtocolError):
        end.open()
    assert end.link.closed_for == "over"


def test_reset_travels_with_its_reason() -> None:
    """Code and sentence reach the other owner."""
    end = End()
    owner = end.open()
    end.receive(1, codec.RESET, codec.pack_reset(502, "cannot reach its API server"))
    assert owner.reset == (502, "cannot reach its API server")
    assert not end.mux.streams


def test_an_end_without_data_follows_the_backlog() -> None:
    """The end of a stream is not lost when its last bytes wait for their turn."""
    end = End()
    bulk = end.open()
    end.loop.run()
    end.sent()
    bulk.stream.send(b"b" * 20_000)
    bulk.stream.send(b"", END)
    end.loop.run()
    frames = [(kind, data) for _, kind, data in end.sent() if kind & 15 == codec.DATA]
    assert b"".join(data for _, data in frames) == b"b" * 20_000
    assert frames[-1][0] & END


def test_no_tenant_and_no_link_takes_the_memory_of_the_others() -> None:
    """A share is at its limit long before the whole is; only its own streams pay for it."""
    budget = ReceiveBudget(400 << 10, links=2, tenants=4)
    ends = [End(budget=0) for _ in range(3)]
    for end in ends:
        end.mux.budget = budget
    greedy, modest = ends[0].open(b"ann"), ends[1].open(b"bob")
    ends[1].receive(modest.stream.id, codec.DATA, b"m" * (60 << 10))
    ends[0].receive(greedy.stream.id, codec.DATA, b"g" * (64 << 10))
    other = ends[2].open(b"ann")
    ends[2].receive(other.stream.id, codec.DATA, b"o" * (40 << 10))
    assert greedy.reset and greedy.reset[0] == 429
    crowd = [ends[2].open(b"%d" % number) for number in range(4)]
    for one in crowd:
        ends[2].receive(one.stream.id, codec.DATA, b"c" * (50 << 10))
    assert sum(one.reset is not None for one in crowd) == 1
    assert modest.reset is None
    assert budget.used <= 400 << 10


def test_data_that_nobody_reads_ends_its_stream_after_ten_minutes() -> None:
    """A slow but steady reader may go on."""
    end, idle = agent_with_stream()
    end.receive(3, codec.OPEN, REQUEST.pack(1 << 20))
    slow = end.owner.accepted[3]
    for stream in (1, 3):
        end.receive(stream, codec.DATA, b"x" * 1000)
    for _ in range(65):
        end.loop.advance(10)
        end.receive(0, codec.PING | END, b"\0" * 8)
        slow.consume(1)
        end.mux.beat()
    assert idle.reset and idle.reset[0] == 504
    assert slow.reset is None


def test_no_stream_lives_longer_than_a_day() -> None:
    """Younger ones go on."""
    end = End()
    old = end.open()
    end.loop.advance(20 * 3600)
    young = end.open()
    end.loop.advance(4 * 3600)
    end.receive(0, codec.PING | END, b"\0" * 8)
    end.mux.beat()
    assert old.reset and old.reset[0] == 504
    assert young.reset is None


def test_the_last_id_hands_the_link_over() -> None:
    """Ids are never used again: before 2^31 the agent is asked to dial anew."""
    end = End()
    end.mux._last_id = codec.MAX_ID - 4
    end.open()
    assert end.mux.accepts_streams
    end.open()
    assert not end.mux.accepts_streams
    end.loop.run()
    assert codec.DRAIN in [kind for _, kind, _ in end.sent()]


# What builds have said; a byte never changes. Version 1, and a newer one that appends to HELLO.
RECORDED = {
    "1": "00000000000000200101000000000000000400000001000061616161616161616161616161616161",
    "1 to 2": "0000000000000024"
    "010200000000000700040000000100006161616161616161616161616161616100000000",
    "0 to 1": "00000000000000200001000000000000000400000001000061616161616161616161616161616161",
}


@pytest.mark.parametrize("version", sorted(RECORDED))
def test_one_version_older_and_newer_is_understood(version: str) -> None:
    """The recorded first bytes of an agent open the link, and a recorded answer is read."""
    loop, owner = ManualLoop(), RecordingMuxOwner()
    mux = Mux(
        MemoryLink(),
        owner,
        hub=True,
        hello=HELLO,
        time=MuxTime(loop, loop),
        budget=ReceiveBudget(1 << 20),
        settings=SETTINGS,
    )
    mux.on_message(bytes.fromhex(RECORDED[version]))
    assert mux.accepts_streams
    answer = RecordingOwner()
    answer.stream = mux.open(answer, REQUEST, tenant=b"ann")
    mux.on_message(bytes.fromhex("00000001820000026f6b"))
    assert (answer.received, answer.ended) == (b"ok", False)


@pytest.mark.parametrize("versions", ["0203", "0000"])
def test_versions_without_overlap_are_both_named(versions: str) -> None:
    """The reason says what each side speaks."""
    end = End()
    end.mux.peer = None
    hello = versions + RECORDED["1"][20:]
    end.mux.on_message(bytes.fromhex("0000000000000020" + hello))
    lowest, highest = int(versions[:2]), int(versions[2:])
    assert f"{lowest}-{highest} there, 1-1 here" in str(end.owner.closed_for)
