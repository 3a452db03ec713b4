"""Breaches of HTTP/2 get the code of RFC 9113 and end the connection."""

import struct

import pytest

from core.http2 import frames
from core.http2.connection import MAX_HEADER_BYTES, Http2Limits
from core.http2.frames import (
    ACK,
    CONTINUATION,
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    MAX_FRAME_BYTES,
    MAX_WINDOW,
    PADDED,
    PING,
    PREFACE,
    PRIORITIZED,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    WINDOW_UPDATE,
    ErrorCode,
    Setting,
    frame,
    head,
)
from tests.fakes.http2 import ANSWER, GREETING, Http2End, header_block, split_frames

BLOCK = header_block()
OPEN = frame(HEADERS, END_HEADERS, 1, BLOCK)
ENDED = frame(HEADERS, END_HEADERS | END_STREAM, 1, BLOCK)
UNFINISHED = frame(HEADERS, 0, 1, BLOCK)
BOMB = b"\x40\x01a\x7f\x80\x08" + b"b" * 1151 + b"\xbe" * 100


def setting(name: int, value: int) -> bytes:
    return frame(SETTINGS, 0, 0, struct.pack(">HI", name, value))


def window(stream_id: int, grown: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream_id, grown.to_bytes(4, "big"))


def data_frames(size: int) -> bytes:
    pieces = [min(DEFAULT_FRAME_BYTES, size - at) for at in range(0, size, DEFAULT_FRAME_BYTES)]
    return b"".join(frame(DATA, 0, 1, bytes(piece)) for piece in pieces)


P, F, S = ErrorCode.PROTOCOL_ERROR, ErrorCode.FLOW_CONTROL_ERROR, ErrorCode.FRAME_SIZE_ERROR
C, CALM = ErrorCode.COMPRESSION_ERROR, ErrorCode.ENHANCE_YOUR_CALM

FIRST_WORDS = {
    "another protocol": (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", P),
    "a preface with a fault at its end": (PREFACE[:-1] + b"\r", P),
    "no settings at first": (PREFACE + frame(PING, 0, 0, bytes(8)), P),
    "a stream before settings": (PREFACE + OPEN, P),
    "data before settings": (PREFACE + frame(DATA, 0, 1, b"x" * 20), P),
    "an unknown frame before settings": (PREFACE + frame(99, 0, 0, b""), P),
    "a yes to settings at first": (PREFACE + frame(SETTINGS, ACK, 0), P),
}
BREACHES = {
    "a frame too large": (head(DEFAULT_FRAME_BYTES + 1, DATA, 0, 1), S),
    "a huge frame of an unknown kind": (head(MAX_FRAME_BYTES, 99, 0, 0), S),
    "data on no stream": (frame(DATA, 0, 0, b"x" * 20), P),
    "data on an idle stream": (frame(DATA, 0, 1, b"x" * 20), P),
    "data on an idle stream above": (OPEN + frame(DATA, 0, 3, b"x" * 20), P),
    "data on a stream of the server's": (OPEN * 2 + frame(DATA, 0, 2, b"x" * 20), P),
    "data beyond the window": (OPEN + data_frames(DEFAULT_WINDOW + 1), F),
    "padding beyond the window": (
        OPEN + data_frames(DEFAULT_WINDOW - 10) + frame(DATA, PADDED, 1, b"\x09" + bytes(10)),
        F,
    ),
    "data padded beyond itself": (OPEN + frame(DATA, PADDED, 1, b"\x0a" + bytes(9)), P),
    "data without its padding's length": (OPEN + frame(DATA, PADDED, 1), P),
    "headers on no stream": (frame(HEADERS, END_HEADERS, 0, BLOCK), P),
    "headers on an even stream": (frame(HEADERS, END_HEADERS, 2, BLOCK), P),
    "headers on an even stream below": (
        frame(HEADERS, END_HEADERS, 5, BLOCK) + frame(HEADERS, END_HEADERS, 4, BLOCK),
        P,
    ),
    "headers padded beyond themselves": (frame(HEADERS, PADDED | END_HEADERS, 1, b"\x05abc"), P),
    "headers without their priority": (frame(HEADERS, PRIORITIZED | END_HEADERS, 1, b"abcd"), P),
    "headers whose padding is their priority": (
        frame(HEADERS, PRIORITIZED | PADDED | END_HEADERS, 1, b"\x03" + bytes(7)),
        P,
    ),
    "a continuation of nothing": (frame(CONTINUATION, END_HEADERS, 1, BLOCK), P),
    "a continuation after the end": (OPEN + frame(CONTINUATION, END_HEADERS, 1, b""), P),
    "a continuation of another stream": (UNFINISHED + frame(CONTINUATION, 4, 3, b""), P),
    "data in the middle of headers": (OPEN + frame(HEADERS, 0, 3, b"") + data_frames(20), P),
    "a ping in the middle of headers": (UNFINISHED + frame(PING, 0, 0, bytes(8)), P),
    "an unknown frame in the middle of headers": (UNFINISHED + frame(99, 0, 1), P),
    "headers in the middle of headers": (UNFINISHED + frame(HEADERS, 4, 1, b""), P),
    "continuations that never end": (
        UNFINISHED + frame(CONTINUATION, 0, 1, bytes(4096)) * 4,
        CALM,
    ),
    "empty continuations that never end": (UNFINISHED + frame(CONTINUATION, 0, 1) * 3000, CALM),
    "a bomb of headers": (frame(HEADERS, END_HEADERS, 1, BOMB), C),
    "headers larger than the list may be": (
        frame(HEADERS, END_HEADERS, 1, b"\x00\x01a\x7f\xf3\x7e" + b"b" * 16370),
        C,
    ),
    "an index of no header": (frame(HEADERS, END_HEADERS, 1, b"\xff\x80\x01"), C),
    "index zero": (frame(HEADERS, END_HEADERS, 1, b"\x80"), C),
    "a number without end": (frame(HEADERS, END_HEADERS, 1, b"\xff" + b"\xff" * 40), C),
    "half a header": (frame(HEADERS, END_HEADERS, 1, b"\x40\x05ab"), C),
    "a value that is missing": (frame(HEADERS, END_HEADERS, 1, b"\x40\x01a"), C),
    "Huffman's code with a wrong end": (frame(HEADERS, END_HEADERS, 1, b"\x40\x81\x00\x00"), C),
    "no UTF-8": (frame(HEADERS, END_HEADERS, 1, b"\x40\x01a\x01\xff"), C),
    "a table larger than allowed": (frame(HEADERS, END_HEADERS, 1, b"\x3f\xff\xff\x03"), C),
    "a table that changes behind a header": (frame(HEADERS, END_HEADERS, 1, b"\x82\x20"), C),
    "bad headers on a stream that was reset": (
        OPEN + frames.rst_stream(1, ErrorCode.CANCEL) + frame(HEADERS, END_HEADERS, 1, b"\x80"),
        C,
    ),
    "a table that changes on and on": (
        frame(HEADERS, END_HEADERS, 1, b"\x20\x3f\x61\x20" + BLOCK),
        C,
    ),
    "settings of a stream": (frame(SETTINGS, 0, 1), P),
    "a piece of a setting": (frame(SETTINGS, 0, 0, bytes(5)), S),
    "a yes to settings with more": (frame(SETTINGS, ACK, 0, bytes(6)), S),
    "a first window too wide": (setting(Setting.INITIAL_WINDOW_SIZE, MAX_WINDOW + 1), F),
    "frames too small": (setting(Setting.MAX_FRAME_SIZE, DEFAULT_FRAME_BYTES - 1), P),
    "frames too large": (setting(Setting.MAX_FRAME_SIZE, MAX_FRAME_BYTES + 1), P),
    "push that is neither": (setting(Setting.ENABLE_PUSH, 2), P),
    "settings that widen a wide window": (
        OPEN + window(1, MAX_WINDOW - DEFAULT_WINDOW) + setting(Setting.INITIAL_WINDOW_SIZE, 65536),
        F,
    ),
    "thousands of settings in a frame": (frame(SETTINGS, 0, 0, bytes(6 * 2700)), CALM),
    "the connection's window by nothing": (window(0, 0), P),
    "a stream's window by nothing": (OPEN + window(1, 0), P),
    "the connection's window too wide": (window(0, MAX_WINDOW), F),
    "a stream's window too wide": (OPEN + window(1, MAX_WINDOW), F),
    "a window of an idle stream": (window(1, 1), P),
    "a window of five bytes": (frame(WINDOW_UPDATE, 0, 0, bytes(5)), S),
    "a ping of seven bytes": (frame(PING, 0, 0, bytes(7)), S),
    "a ping of a stream": (frame(PING, 0, 1, bytes(8)), P),
    "a push": (OPEN + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4) + BLOCK), P),
    "a short goaway": (frame(GOAWAY, 0, 0, bytes(7)), S),
    "a goaway of a stream": (frame(GOAWAY, 0, 1, bytes(8)), P),
    "a reset of an idle stream": (frames.rst_stream(1, ErrorCode.CANCEL), P),
    "a reset of no stream": (frames.rst_stream(0, ErrorCode.CANCEL), P),
    "a reset of three bytes": (OPEN + frame(RST_STREAM, 0, 1, bytes(3)), S),
}
FLOODS = {
    "pings": frame(PING, 0, 0, bytes(8)),
    "answers to pings": frame(PING, ACK, 0, bytes(8)),
    "settings": frame(SETTINGS, 0, 0),
    "answers to settings": frame(SETTINGS, ACK, 0),
    "tables that grow and shrink": setting(Setting.HEADER_TABLE_SIZE, 0)
    + setting(Setting.HEADER_TABLE_SIZE, 4096),
    "priorities": frame(PRIORITY, 0, 1, bytes(5)),
    "unknown frames": frame(99, 0, 0),
    "empty data": frame(DATA, 0, 1),
    "empty data with padding": frame(DATA, PADDED, 1, b"\x03" + bytes(3)),
    "resets of what is past": frames.rst_stream(1, ErrorCode.CANCEL),
    "windows by one": window(0, 1),
    "goaways": frames.goaway(0, ErrorCode.NO_ERROR, ""),
}


def last_code(end: Http2End) -> int:
    """The code of the GOAWAY that ended it."""
    *_, (kind, _, _, payload) = split_frames(bytes(end.transport.sent))
    assert kind == GOAWAY
    return int.from_bytes(payload[4:8], "big")


def greeted(limits: Http2Limits | None = None, *, takes: bool = True) -> Http2End:
    """A server whose client has said its first words."""
    end = Http2End(limits=limits, takes=takes)
    end.connection.receive(GREETING)
    assert not end.connection.closed
    return end


@pytest.mark.parametrize("name", FIRST_WORDS)
def test_first_words_that_are_none(name: str) -> None:
    words, code = FIRST_WORDS[name]
    end = Http2End()
    end.connection.receive(words)
    assert (last_code(end), end.transport.closed) == (code, True)


@pytest.mark.parametrize("pieces", [False, True], ids=["at once", "in pieces"])
@pytest.mark.parametrize("name", BREACHES)
def test_a_breach_ends_the_connection_with_its_code(name: str, pieces: bool) -> None:
    """However its bytes arrive: every stream is reset, and nothing is read or sent after it."""
    words, code = BREACHES[name]
    end = greeted(takes=False)
    step = max(1, len(words) // 500) if pieces else len(words)
    for at in range(0, len(words), step):
        end.connection.receive(words[at : at + step])
    assert (last_code(end), end.transport.closed) == (code, True)
    assert not end.connection.streams and not end.connection.usable
    assert all(reader.reset for reader in end.readers.values())
    end.connection.receive(OPEN)
    end.connection.ping()
    end.connection.lost("gone")
    assert last_code(end) == code


@pytest.mark.parametrize("name", FLOODS)
def test_frames_without_content_are_rate_limited(name: str) -> None:
    """A flood within a second ends the connection; the same over minutes does not."""
    calm, flooded = greeted(), greeted()
    for end in (calm, flooded):
        end.connection.receive(OPEN)
    for _ in range(30):
        calm.connection.receive(FLOODS[name] * 100)
        calm.clock.advance(2)
        calm.transport.take()
    assert not calm.connection.closed
    flooded.connection.receive(FLOODS[name] * 21_000)
    assert last_code(flooded) == CALM


def test_streams_that_are_opened_and_reset_at_once_are_weighed() -> None:
    """CVE-2023-44487: none of them is ever more than one of those that are allowed."""
    end = greeted()
    for stream_id in range(1, 2001, 2):
        end.connection.receive(
            frame(HEADERS, END_HEADERS, stream_id, BLOCK)
            + frames.rst_stream(stream_id, ErrorCode.CANCEL)
        )
    assert last_code(end) == CALM
    assert len(end.readers) < 500


def test_headers_that_cannot_be_read_are_not_quoted() -> None:
    """Headers contain tokens, and the reason of the end is logged."""
    end = greeted()
    end.connection.receive(frame(HEADERS, END_HEADERS, 1, b"\x40" + b"\xff" * 6 + b"swordfish"))
    assert last_code(end) == C
    assert "swordfish" not in end.connection.reason and b"swordfish" not in end.transport.sent


def test_headers_that_take_long_to_read_are_weighed() -> None:
    """Large ones come less often than small ones."""
    block = b"\x20\x3f\xe1\x1f" + BLOCK + header_block((("a", "\x01" * 5000),))
    end = greeted()
    for stream_id in range(1, 401, 2):
        end.connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, block))
        if end.connection.closed:
            break
        end.readers[stream_id].stream.end(ANSWER)
    assert last_code(end) == CALM
    assert len(end.readers) < 100


def test_more_streams_than_allowed_are_refused_one_by_one() -> None:
    """Those that are open go on, and when one has ended there is room for another."""
    end = greeted(Http2Limits(streams=2))
    for stream_id in (1, 3, 5):
        end.connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, BLOCK))
    refused = frames.rst_stream(5, ErrorCode.REFUSED_STREAM)
    assert end.transport.sent.endswith(refused) and sorted(end.readers) == [1, 3]
    end.readers[1].stream.end(ANSWER)
    end.connection.receive(frame(HEADERS, END_HEADERS, 7, BLOCK))
    assert sorted(end.readers) == [1, 3, 7] and not end.connection.closed


@pytest.mark.parametrize("last", [DATA, HEADERS])
def test_frames_after_end_stream_reset_that_stream_only(last: int) -> None:
    """RFC 9113, 5.1: half closed."""
    end = greeted()
    payload = BLOCK if last == HEADERS else b"more than a few"
    end.connection.receive(ENDED + frame(last, END_HEADERS & -(last == HEADERS), 1, payload))
    assert end.transport.sent.endswith(frames.rst_stream(1, ErrorCode.STREAM_CLOSED))
    assert end.readers[1].reset and end.readers[1].reset[0] == ErrorCode.STREAM_CLOSED
    assert not end.connection.closed and not end.connection.streams


@pytest.mark.parametrize(
    "late",
    [
        frame(DATA, 0, 1, b"x" * 20),
        frame(DATA, END_STREAM, 1, b"x" * 20),
        window(1, 1),
        frames.rst_stream(1, ErrorCode.CANCEL),
        frame(HEADERS, END_HEADERS | END_STREAM, 1, header_block((("a", "b"),))),
    ],
    ids=["data", "the end", "a window", "a reset", "trailers"],
)
def test_frames_that_cross_a_reset_are_ignored(late: bytes) -> None:
    """We have reset it; the far side could not know."""
    end = greeted()
    end.connection.receive(OPEN)
    end.readers[1].stream.reset()
    end.connection.receive(late)
    assert not end.connection.closed
    assert not end.readers[1].body and end.readers[1].reset is None


def test_the_table_of_headers_moves_with_headers_that_nobody_waits_for() -> None:
    """RFC 9113, 4.3: or else each block behind them would be read as another."""
    end = greeted()
    end.connection.receive(OPEN)
    end.readers[1].stream.reset()
    end.connection.receive(frame(HEADERS, END_HEADERS, 1, b"\x40\x01a\x01b"))
    end.connection.receive(frame(HEADERS, END_HEADERS, 3, b"\xbe"))
    assert end.readers[3].heads == [[("a", "b")]]


@pytest.mark.parametrize("size", [DEFAULT_FRAME_BYTES, DEFAULT_FRAME_BYTES + 1, 40_000])
def test_larger_frames_are_taken_of_whom_we_trust(size: int) -> None:
    end = greeted()
    end.connection.receive(OPEN)
    end.connection.raise_frame_limit(40_000)
    assert setting(Setting.MAX_FRAME_SIZE, 40_000) in end.transport.sent
    end.connection.receive(frame(DATA, 0, 1, bytes(size)))
    assert len(end.readers[1].body) == size
    end.connection.raise_frame_limit(20_000)
    end.connection.receive(frame(DATA, 0, 1, bytes(40_001)))
    assert last_code(end) == S


def test_unknown_frames_flags_and_settings_are_ignored() -> None:
    """Frames, flags, settings, codes, and the bit that is reserved (RFC 9113, 4.1 and 5.5)."""
    end = greeted()
    end.connection.receive(setting(0x77, MAX_WINDOW) + frame(99, 255, 77, b"what"))
    end.connection.receive(frame(HEADERS, END_HEADERS | 0xD2, 1 | 1 << 31, BLOCK))
    end.connection.receive(frame(DATA, 0xF2, 1 | 1 << 31, b"hello, you there"))
    end.connection.receive(frame(RST_STREAM, 0xFF, 1, b"\xff" * 4))
    reader = end.readers[1]
    assert reader.body == b"hello, you there" and reader.reset
    assert "4294967295" in reader.reset[1] and not end.connection.closed


def test_a_client_hears_no_server_that_breaks_the_rules() -> None:
    """The same, from the other end: streams that it never opened, pushes, HTTP/1."""
    for words, code in (
        (frame(HEADERS, END_HEADERS, 3, BLOCK), P),
        (frame(HEADERS, END_HEADERS, 2, BLOCK), P),
        (frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4) + BLOCK), P),
        (setting(Setting.ENABLE_PUSH, 1), P),
        (frames.rst_stream(3, ErrorCode.CANCEL), P),
    ):
        end = Http2End(client=True)
        end.open()
        end.connection.receive(frames.settings({}) + words)
        assert last_code(end) == code
        assert end.readers[1].reset
    end = Http2End(client=True)
    end.connection.receive(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    assert last_code(end) == ErrorCode.HTTP_1_1_REQUIRED and "HTTP/1" in end.connection.reason


def test_a_server_that_goes_away_has_not_served_what_came_last() -> None:
    """Streams up to the one it names end as they should, then the connection does."""
    end = Http2End(client=True)
    first, second = end.open(), end.open()
    end.connection.receive(frames.settings({}) + frames.goaway(1, ErrorCode.NO_ERROR, "later"))
    assert second.reset == (ErrorCode.REFUSED_STREAM, "later") and first.reset is None
    assert not end.connection.usable and not end.connection.closed
    first.stream.end()
    end.connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, b"\x88"))
    assert first.ended and end.connection.closed and end.transport.closed


def test_a_peer_that_reads_nothing_fills_no_memory() -> None:
    """While the transport is full, what a stranger has us answer is bounded."""
    for words in (frame(PING, 0, 0, bytes(8)), frame(SETTINGS, 0, 0)):
        end = greeted()
        end.connection.pause()
        for _ in range(60):
            end.connection.receive(words * 100)
            end.clock.advance(2)
        assert last_code(end) == CALM
        assert len(end.transport.sent) < 20_000


def test_calls_of_a_peer_that_reads_nothing_are_bounded() -> None:
    """Each is answered, if only by a refusal."""
    end = greeted()
    end.connection.pause()
    for stream_id in range(1, 4001, 2):
        end.connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, stream_id, BLOCK))
        if end.connection.closed:
            break
        end.readers[stream_id].stream.end(ANSWER)
        end.clock.advance(0.1)
    assert last_code(end) == CALM
    assert len(end.readers) < 1100


def test_memory_held_for_a_peer_is_bounded() -> None:
    """Unread windows, headers and a frame are counted."""
    limits = Http2Limits(streams=4)
    end = greeted(limits, takes=False)
    for stream_id in (1, 3, 5, 7):
        end.connection.receive(frame(HEADERS, END_HEADERS, stream_id, BLOCK))
        for size in (DEFAULT_FRAME_BYTES,) * 3 + (DEFAULT_FRAME_BYTES - 1,):
            end.connection.receive(frame(DATA, 0, stream_id, bytes(size)))
    end.connection.receive(frame(HEADERS, 0, 9, bytes(DEFAULT_FRAME_BYTES)))
    end.connection.receive(frame(CONTINUATION, 0, 9, bytes(DEFAULT_FRAME_BYTES))[:-1])
    connection = end.connection
    assert not connection.closed
    body = sum(len(reader.body) for reader in end.readers.values())
    block = connection._header_block
    assert block is not None
    kept = body + len(block[2]) + sum(map(len, connection._partial))
    assert kept <= limits.streams * limits.window + MAX_HEADER_BYTES + DEFAULT_FRAME_BYTES + 9
    connection.receive(b"\0")
    assert last_code(end) == CALM
