"""The two sides of an HTTP/2 connection without a socket: its transport, and who reads a stream."""

from dataclasses import dataclass, field

import hpack

from core.http2 import frames
from core.http2.connection import Http2Connection, Http2Limits
from core.http2.frames import HEAD_SIZE, ID_MASK, PREFACE
from core.http2.stream import Headers, Http2Stream
from tests.fakes.tunnel import ManualLoop

REQUEST: Headers = (
    (":method", "POST"),
    (":scheme", "http"),
    (":path", "/a"),
    (":authority", "hub"),
    ("te", "trailers"),
)
ANSWER: Headers = ((":status", "200"),)
GREETING = PREFACE + frames.settings({})


class SentBytes:
    """A transport that keeps what it is given."""

    def __init__(self) -> None:
        self.sent = bytearray()
        self.closed = False

    def write(self, data: bytes, /) -> None:
        assert not self.closed, "written after the end"
        self.sent += data

    def close(self) -> None:
        self.closed = True

    def take(self, size: int = -1) -> bytes:
        """Bytes sent and not taken yet, `size` at most."""
        data = bytes(self.sent if size < 0 else self.sent[:size])
        del self.sent[: len(data)]
        return data


@dataclass(slots=True)
class StreamReader:
    """Records events of a stream; asserts that an end is reported once, with nothing after it.

    It gives credit for the bytes that it `takes`.
    """

    stream: Http2Stream
    takes: bool = True
    body: bytearray = field(default_factory=bytearray)
    heads: list[Headers] = field(default_factory=list)
    owed: int = 0
    ended: bool = False
    reset: tuple[int, str] | None = None
    rooms: int = 0

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        self._hear()
        self.heads.append(headers)
        self.ended = end

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        self._hear()
        assert start < stop <= len(data)
        self.body += data[start:stop]
        self.owed += stop - start
        if self.takes:
            self.take()

    def on_end(self) -> None:
        self._hear()
        self.ended = True

    def on_reset(self, code: int, reason: str) -> None:
        assert self.reset is None, "cut off twice"
        assert self.stream.closed
        self.reset = code, reason

    def on_writable(self) -> None:
        assert self.reset is None and not self.stream.blocked and not self.stream.closed
        self.rooms += 1

    def take(self) -> None:
        """Have the far side go on."""
        owed, self.owed = self.owed, 0
        self.stream.consume(owed)

    def _hear(self) -> None:
        assert not self.ended, "something came after the end"
        assert self.reset is None, "something came after the reset"


class Http2End:
    """One end, the server unless `client`, with the readers of its streams by their ids."""

    def __init__(
        self, *, client: bool = False, limits: Http2Limits | None = None, takes: bool = True
    ) -> None:
        self.clock, self.transport = ManualLoop(), SentBytes()
        self.readers: dict[int, StreamReader] = {}
        self.takes = takes
        self.connection = Http2Connection(
            self.transport,
            self.clock,
            limits or Http2Limits(),
            None if client else self._accept,
        )
        self.connection.begin()

    def open(self, headers: Headers = REQUEST) -> StreamReader:
        """A new stream of the client."""
        return self._reader(self.connection.open(headers))

    def _accept(self, _: Http2Connection, stream: Http2Stream, headers: Headers) -> None:
        reader = self._reader(stream)
        reader.heads.append(headers)
        reader.ended = stream.peer_ended

    def _reader(self, stream: Http2Stream) -> StreamReader:
        stream.receiver = reader = StreamReader(stream, self.takes)
        self.readers[stream.id] = reader
        return reader


def header_block(headers: Headers = REQUEST) -> bytes:
    """Headers as a first block of a connection."""
    return hpack.Encoder().encode(headers)


def split_frames(data: bytes) -> list[tuple[int, int, int, bytes]]:
    """Kind, flags, stream and payload of each frame, behind the preface if there is one."""
    found, at = [], len(PREFACE) if data.startswith(PREFACE) else 0
    while at < len(data):
        size = int.from_bytes(data[at : at + 3], "big")
        stream_id = int.from_bytes(data[at + 5 : at + 9], "big") & ID_MASK
        payload = data[at + HEAD_SIZE : at + HEAD_SIZE + size]
        assert len(payload) == size, "a piece of a frame"
        found.append((data[at + 3], data[at + 4], stream_id, payload))
        at += HEAD_SIZE + size
    return found
