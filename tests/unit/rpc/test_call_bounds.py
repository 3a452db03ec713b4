"""Buffers of a call for slow readers, and the order of writers that wait for credit."""

import asyncio
import struct

import pytest

from core.http2 import frames
from core.http2.connection import Http2Connection
from core.http2.frames import (
    DATA,
    DEFAULT_WINDOW,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    WINDOW_UPDATE,
    frame,
)
from core.http2.stream import Headers, Http2Stream
from core.rpc.calls import CallFailed, CallStatus
from core.rpc.http2_call import CONTENT_TYPE, READ_WINDOW, ClientCall, ServerCall
from core.runtime.tasks import Tasks
from tests.fakes.clock import settle
from tests.fakes.http2 import ANSWER, GREETING, Http2End, header_block, split_frames

PIECE = bytes(64 << 10)
WIDE = frames.window_update(0, 1 << 30)


class ServedEnd(Http2End):
    """A server whose streams are calls, by their ids."""

    def __init__(self) -> None:
        self.calls: dict[int, ServerCall] = {}
        super().__init__()
        self.connection.receive(GREETING)

    def _accept(self, _: Http2Connection, stream: Http2Stream, headers: Headers) -> None:
        self.calls[stream.id] = ServerCall(stream, "peer", dict(headers), 1 << 20, lambda: None)

    def called(self, stream_id: int) -> ServerCall:
        """A new call, whose caller takes whatever is sent."""
        block = header_block() if stream_id == 1 else b"\x82"
        self.connection.receive(frame(HEADERS, END_HEADERS, stream_id, block))
        self.connection.receive(frames.window_update(stream_id, 1 << 30))
        self.transport.take()
        return self.calls[stream_id]

    def granted(self) -> int:
        """Credit granted to the far side since the last call."""
        return sum(
            int.from_bytes(payload, "big")
            for kind, _, stream_id, payload in split_frames(self.transport.take())
            if kind == WINDOW_UPDATE and stream_id
        )


def message(size: int) -> bytes:
    return struct.pack(">BI", 0, size) + bytes(size)


def data(stream_id: int, body: bytes) -> bytes:
    step = frames.DEFAULT_FRAME_BYTES
    pieces = [body[at : at + step] for at in range(0, len(body), step)]
    return b"".join(frame(DATA, 0, stream_id, piece) for piece in pieces)


async def sent_as_granted(end: ServedEnd, one: bytes, most: int) -> int:
    """The bytes that a caller brings forth with these messages before it has to wait."""
    window, sent, batch = DEFAULT_WINDOW, 0, one * max(1, 8_000 // len(one))
    while window >= len(batch) and sent < most:
        end.connection.receive(data(1, batch))
        window, sent = window - len(batch) + end.granted(), sent + len(batch)
        await settle(1)
    return sent


@pytest.mark.parametrize("size", [0, 1, 20, 5_000, 900_000], ids="of {} bytes".format)
async def test_nothing_is_granted_before_anybody_reads(size: int) -> None:
    """A stranger whose token is looked at meanwhile sends one window and waits."""
    end = ServedEnd()
    end.called(1)
    one = message(size)[:60_000]
    assert await sent_as_granted(end, one, 10 << 20) <= DEFAULT_WINDOW
    assert not end.connection.closed


@pytest.mark.parametrize("size", [0, 1, 20, 5_000])
async def test_messages_of_any_size_wait_in_bounded_number(size: int) -> None:
    """Empty ones count too; and when they are read, the far side goes on."""
    end = ServedEnd()
    call = end.called(1)
    end.connection.receive(data(1, message(7)))
    assert await call.read() == bytes(7)
    await sent_as_granted(end, message(size), 64 << 20)
    assert sum(len(one) + 64 for one in call._messages) <= 2 * READ_WINDOW + DEFAULT_WINDOW * (
        1 + 64 // (size + 5)
    )
    while call._messages:
        await call.read()
    assert end.granted() >= DEFAULT_WINDOW // 2


async def test_a_large_first_message_comes_to_who_reads() -> None:
    """The reader grants more as it comes, be it larger than any window."""
    end = ServedEnd()
    call = end.called(1)
    reading = asyncio.ensure_future(call.read())
    await settle()
    whole, at, window = message(900_000), 0, DEFAULT_WINDOW
    while at < len(whole):
        piece = whole[at : at + min(window, 16_000)]
        assert piece, "nothing is granted any more"
        end.connection.receive(data(1, piece))
        at, window = at + len(piece), window - len(piece) + end.granted()
    assert await reading == bytes(900_000)


async def test_a_call_that_has_ended_keeps_nothing_of_what_still_comes() -> None:
    """Its last words wait for a window, and the far side sends on."""
    end = ServedEnd()
    end.connection.receive(frame(HEADERS, END_HEADERS, 1, header_block()))
    call = end.calls[1]
    await call.write(bytes(200_000))
    call.finish(CallStatus.OK)
    assert call._stream.has_queued_data
    end.transport.take()
    for _ in range(3):
        end.connection.receive(data(1, bytes(20_000)))
    assert not call._partial and not call._messages and not end.granted()
    with pytest.raises(CallFailed):
        await call.read()


@pytest.mark.parametrize("lead", [b"\1\0\0\0\3abc", b"\0\x7f\xff\xff\xff"], ids=["packed", "huge"])
async def test_a_message_that_is_not_taken_is_refused_in_trailers(lead: bytes) -> None:
    """At once, though its handler is at something else; whatever that says later is not heard."""
    end = ServedEnd()
    call = end.called(1)
    end.connection.receive(data(1, lead))
    kinds = [kind for kind, *_ in split_frames(end.transport.take())]
    assert kinds == [HEADERS, frames.RST_STREAM] and not end.connection.streams
    with pytest.raises(CallFailed) as refused:
        await call.read()
    assert refused.value.status in {CallStatus.UNIMPLEMENTED, CallStatus.RESOURCE_EXHAUSTED}
    call.finish(CallStatus.OK)
    assert not end.transport.sent


async def test_a_writer_waiting_for_credit_learns_that_the_call_ended() -> None:
    """The far side has said its last, and reads nothing more."""
    end = Http2End(client=True)
    call = ClientCall(end.open().stream, "hub", 1 << 20)
    end.connection.receive(frames.settings({}))
    end.connection.pause()
    writing = asyncio.ensure_future(call.write(PIECE))
    await settle()
    last = header_block((*ANSWER, ("content-type", CONTENT_TYPE), ("grpc-status", "0")))
    end.connection.receive(frame(HEADERS, END_HEADERS | END_STREAM, 1, last))
    await settle()
    assert writing.done()
    with pytest.raises(CallFailed, match="ended"):
        await writing
    assert await call.read() is None


async def test_calls_share_a_transport_that_is_full() -> None:
    """The one that has been there longest does not get all of the room."""
    end, tasks, written = ServedEnd(), Tasks("writers"), {1: 0, 3: 0, 5: 0}
    end.connection.receive(WIDE)

    async def write(stream_id: int, call: ServerCall) -> None:
        while True:
            await call.write(PIECE)
            end.connection.pause()
            written[stream_id] += 1

    for stream_id in written:
        tasks.spawn("write", write(stream_id, end.called(stream_id)))
    for _ in range(200):
        await settle(4)
        end.transport.take()
        end.connection.resume()
    await tasks.stop()
    assert sum(written.values()) >= 200
    assert all(count > 20 for count in written.values()), written
