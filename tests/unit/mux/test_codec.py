"""Frames survive any payload, and garbage is refused rather than misread."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from core.mux import codec
from core.mux.codec import Drain, Hello, Open, ProtocolError

FRAMES = st.lists(
    st.tuples(
        st.integers(0, codec.MAX_ID),
        st.sampled_from([codec.DATA, codec.DATA | codec.END, codec.CREDIT, codec.RESET]),
        st.binary(max_size=300),
    ),
    max_size=8,
)


def joined(frames: list[tuple[int, int, bytes]]) -> bytes:
    return b"".join(codec.header(i, kind, len(data)) + data for i, kind, data in frames)


@given(FRAMES)
def test_frames_come_out_as_they_went_in(frames: list[tuple[int, int, bytes]]) -> None:
    """A message of whole frames is read back exactly."""
    message = joined(frames)
    read = [(i, kind, message[a:b]) for i, kind, a, b in codec.frames(message)]
    assert read == frames


@given(FRAMES, st.data())
def test_a_cut_message_is_refused(
    frames: list[tuple[int, int, bytes]], data: st.DataObject
) -> None:
    """A message that ends inside a frame is an error, never a shorter frame."""
    message = joined(frames)
    cut = data.draw(st.integers(0, len(message)))
    ends = {0}
    for frame in frames:
        ends.add(max(ends) + codec.HEADER_SIZE + len(frame[2]))
    if cut in ends:
        assert len(list(codec.frames(message[:cut]))) == sorted(ends).index(cut)
    else:
        with pytest.raises(ProtocolError):
            list(codec.frames(message[:cut]))


@given(st.binary(max_size=200))
def test_garbage_raises_nothing_but_protocol_errors(garbage: bytes) -> None:
    """Whatever comes, readers of messages and payloads know only one error."""
    readers = (
        lambda: list(codec.frames(garbage)),
        lambda: Hello.unpack(garbage),
        lambda: Open.unpack(garbage),
        lambda: Drain.unpack(garbage),
        lambda: codec.unpack_reset(garbage),
        lambda: codec.unpack_u32(garbage),
    )
    for read in readers:
        try:
            read()
        except ProtocolError:
            pass


def test_oversize_frames_are_refused() -> None:
    """64 KiB at most; 96 KiB for a request's head."""
    for kind, size, good in (
        (codec.DATA, codec.MAX_FRAME, True),
        (codec.DATA, codec.MAX_FRAME + 1, False),
        (codec.OPEN, codec.MAX_OPEN, True),
        (codec.OPEN, codec.MAX_OPEN + 1, False),
    ):
        message = codec.header(1, kind, size) + bytes(size)
        if good:
            assert len(list(codec.frames(message))) == 1
        else:
            with pytest.raises(ProtocolError):
                list(codec.frames(message))


@given(st.binary(max_size=100), st.binary(max_size=100), st.integers(0, 255))
def test_open_round_trip(identity: bytes, head: bytes, flags: int) -> None:
    """An OPEN is read as it was packed, with the window granted at packing."""
    request = Open(head, identity, b"i" * 16, flags)
    assert Open.unpack(request.pack(77)) == Open(head, identity, b"i" * 16, flags, 77)


def test_other_payloads_round_trip() -> None:
    """HELLO, DRAIN and RESET are read as they were packed; texts are bounded."""
    hello = Hello(b"x" * 16, 1000, 1, 3, 5, 4096, 7)
    assert Hello.unpack(hello.pack() + b"from a newer version") == hello
    assert Hello.unpack(hello.pack()[:-1]) == replace(hello, data_link=0)
    assert Drain.unpack(Drain(7, 1000, "soon").pack()) == Drain(7, 1000, "soon")
    code, text = codec.unpack_reset(codec.pack_reset(502, "é" * 2000))
    assert code == 502
    assert text == "é" * (codec.MAX_TEXT // 2)


@pytest.mark.parametrize("invalid", [b"\xff", b"a\xe2\x82", b"\xc3\xa9\xc3"])
def test_text_of_any_bytes_is_bounded_and_reads_the_same_again(invalid: bytes) -> None:
    """What replaces an invalid byte is longer."""
    code, text = codec.unpack_reset(b"\x01\xf6" + invalid * codec.MAX_TEXT)
    assert codec.unpack_reset(codec.pack_reset(code, text)) == (code, text)
    assert codec.MAX_TEXT - 4 < len(text.encode()) <= codec.MAX_TEXT
