"""Frames that look right and are not: whatever comes, only the link or a stream ends."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import FEATURE_TCP, FEATURE_ZSTD, Hello, Open
from core.mux.compression import FrameCompressor
from core.mux.mux import Mux, MuxSettings, MuxTime
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner, RecordingOwner

REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"ann", b"r" * 16)
HELLO = Hello(b"p" * 16, 4096, features=FEATURE_TCP | FEATURE_ZSTD)
LIMIT = 64 << 10
GOOD = [
    HELLO.pack(),
    REQUEST.pack(1000),
    codec.pack_u32(1),
    codec.pack_u32(1 << 30),
    codec.pack_u32((1 << 32) - 1),
    codec.pack_reset(429, "later"),
    codec.Drain(7, 1000, "soon").pack(),
    b"12345678",
    FrameCompressor().pack(b"data " * 400) or b"",
    b"x" * 5000,
]
KINDS = st.one_of(
    st.integers(0, 255),
    st.sampled_from(
        [
            codec.DATA,
            codec.DATA | codec.END,
            codec.DATA | codec.COMPRESSED,
            codec.CREDIT,
            codec.RESET,
        ]
    ),
)
FRAMES = st.lists(
    st.tuples(
        st.one_of(st.integers(0, 12), st.integers(0, (1 << 32) - 1)),
        KINDS,
        st.one_of(st.sampled_from(GOOD), st.binary(max_size=40)),
    ),
    max_size=25,
)


def _end(*, hub: bool) -> tuple[Mux, MemoryLink, ManualLoop, list[RecordingOwner]]:
    """An end that has said hello, and at the hub has three streams."""
    loop, link, owner = ManualLoop(), MemoryLink(), RecordingMuxOwner()
    link.depth = 1 << 30
    mux = Mux(
        link,
        owner,
        hub=hub,
        hello=HELLO,
        time=MuxTime(loop, loop),
        budget=ReceiveBudget(LIMIT),
        settings=MuxSettings(window=4096, small_window=1024, max_window=8192),
    )
    hello = HELLO.pack()
    mux.on_message(codec.header(0, codec.HELLO, len(hello)) + hello)
    owners = [RecordingOwner() for _ in range(3 * hub)]
    for one in owners:
        one.stream = mux.open(one, REQUEST, tenant=b"ann")
        one.stream.send(b"b" * 20_000)
    return mux, link, loop, owners


@pytest.mark.parametrize("hub", [True, False])
@given(frames=FRAMES, split=st.integers(1, 5))
@settings(max_examples=200, deadline=None)
def test_nothing_but_the_link_or_a_stream_ends(
    hub: bool, frames: list[tuple[int, int, bytes]], split: int
) -> None:
    """No exception, no byte held beyond the budget, nothing sent beyond credit; and each
    event of an owner comes once."""
    mux, link, loop, _ = _end(hub=hub)
    for at in range(0, len(frames), split):
        message = b"".join(
            codec.header(stream, kind, len(payload)) + payload
            for stream, kind, payload in frames[at : at + split]
        )
        mux.on_message(message)
        loop.advance(0.2)
        loop.run()
        mux.beat()
    assert mux.budget.used <= LIMIT
    assert all(one.credit >= 0 and one.granted >= 0 for one in mux.streams.values())
    if mux.closed:
        assert not mux.streams and not mux.budget.used and link.closed_for


@pytest.mark.parametrize("hub", [True, False])
@given(garbage=st.binary(max_size=300))
@settings(max_examples=200, deadline=None)
def test_garbage_closes_the_link_and_raises_nothing(hub: bool, garbage: bytes) -> None:
    """Bytes of any kind; an empty message is none."""
    mux, link, loop, owners = _end(hub=hub)
    mux.on_message(garbage)
    loop.run()
    assert mux.closed == (link.closed_for is not None)
    if mux.closed:
        assert all(one.reset for one in owners)
