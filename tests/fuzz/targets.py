"""The targets: each takes any bytes, and raises only where the code under it has a bug."""

from collections.abc import Callable
from ipaddress import ip_address

import h11

from core.http1.chunked import BadChunk, ChunkedReader
from core.http1.response import BadResponse, ResponseObserver
from core.http2.connection import MAX_HEADER_BYTES, Http2Limits
from core.http2.frames import (
    DATA,
    DEFAULT_FRAME_BYTES,
    DEFAULT_WINDOW,
    HEAD_SIZE,
    HEADERS,
    MAX_WINDOW,
    PREFACE,
    ErrorCode,
    frame,
    goaway,
    rst_stream,
    window_update,
)
from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import FEATURE_TCP, FEATURE_ZSTD, Hello, Open, ProtocolError
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.proxy_protocol import MAX_V2, Address, BadProxyHeader, read_header
from proxy.domain.limits import HeadLimits
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.head import RequestHead, parse_head, rebuild, validate_head
from proxy.gateway.parse.route import find_route
from tests.fakes.http2 import GREETING, Http2End, header_block
from tests.fakes.tunnel import ManualLoop, MemoryLink, RecordingMuxOwner, RecordingOwner

LIMITS = HeadLimits()
HELD = 64 << 10
HELLO = Hello(b"p" * 16, 4096, features=FEATURE_TCP | FEATURE_ZSTD)
REQUEST = Open(b"GET / HTTP/1.1\r\n\r\n", b"ann", b"r" * 16)
SETTINGS = MuxSettings(window=4096, small_window=1024, max_window=8192)
STREAMS = 4


def frames(data: bytes) -> None:
    """Frames are read as they lie there, and their payloads as they are written."""
    try:
        ends = [(start, end) for _, _, start, end in codec.frames(data)]
    except ProtocolError:
        return
    starts = [0, *(end for _, end in ends)]
    assert [start - codec.HEADER_SIZE for start, _ in ends] == starts[:-1]
    assert starts[-1] == len(data)
    for start, end in ends:
        _payloads(data[start:end])


def _payloads(payload: bytes) -> None:
    for kind in (Hello, codec.Drain):
        try:
            found = kind.unpack(payload)
        except ProtocolError:
            continue
        assert kind.unpack(found.pack()) == found
    try:
        opened = Open.unpack(payload)
    except ProtocolError:
        return
    assert Open.unpack(opened.pack(opened.window)) == opened


def link(data: bytes) -> None:
    """A mux that gets any messages ends the link or a stream, and holds no more than it may.

    The first byte is the end that gets them; each message is as long as the byte before it says.
    """
    hub = bool(data[:1] and data[0] & 1)
    mux, memory, loop = _end(hub=hub)
    at = 1
    while at < len(data) and not mux.closed:
        size = data[at] or 256
        mux.on_message(data[at + 1 : at + 1 + size])
        at += 1 + size
        loop.advance(0.2)
        loop.run()
        mux.beat()
    assert mux.budget.used <= HELD
    assert all(one.credit >= 0 and one.granted >= 0 for one in mux.streams.values())
    if mux.closed:
        assert not mux.streams and not mux.budget.used and memory.closed_for


def _end(*, hub: bool) -> tuple[Mux, MemoryLink, ManualLoop]:
    loop, memory = ManualLoop(), MemoryLink()
    memory.depth = 1 << 30
    mux = Mux(
        memory,
        RecordingMuxOwner(),
        hub=hub,
        hello=HELLO,
        time=MuxTime(loop, loop),
        budget=ReceiveBudget(HELD),
        settings=SETTINGS,
    )
    hello = HELLO.pack()
    mux.on_message(codec.header(0, codec.HELLO, len(hello)) + hello)
    for _ in range(3 * hub):
        owner = RecordingOwner()
        owner.stream = mux.open(owner, REQUEST, tenant=b"ann")
        owner.stream.send(b"b" * 20_000)
    return mux, memory, loop


def http2(data: bytes) -> None:
    """A connection that gets any bytes ends itself or a stream, tells every end once, and holds
    no more than it may.

    The first byte is the end that gets them; each piece is as long as the byte before it says.
    """
    client = bool(data[:1] and data[0] & 1)
    end = Http2End(client=client, limits=Http2Limits(streams=STREAMS), takes=False)
    connection = end.connection
    connection.receive(GREETING[len(PREFACE) :] if client else GREETING)
    for _ in range(3 * client):
        end.open().stream.send((b"b" * 20_000,), 20_000)
    at = 1
    while at < len(data) and not connection.closed:
        size = data[at] or 256
        connection.receive(data[at + 1 : at + 1 + size])
        at += 1 + size
        end.clock.advance(0.2)
    _look_at_http2(end)


def _look_at_http2(end: Http2End) -> None:
    connection = end.connection
    assert len(connection.streams) <= STREAMS
    assert all(reader.owed <= DEFAULT_WINDOW for reader in end.readers.values())
    assert all(stream.send_window <= MAX_WINDOW for stream in connection.streams.values())
    assert all(reader.stream.closed for reader in end.readers.values() if reader.reset)
    assert connection._header_block is None or len(connection._header_block[2]) <= MAX_HEADER_BYTES
    assert sum(map(len, connection._partial)) < DEFAULT_FRAME_BYTES + HEAD_SIZE
    if connection.closed:
        assert end.transport.closed and not connection.streams


def head(data: bytes) -> None:
    """What is accepted h11 reads alike, and what is forwarded leads where it was routed."""
    data = data[: data.find(b"\r\n\r\n") + 4] if b"\r\n\r\n" in data else data + b"\r\n\r\n"
    read = accepted(data)
    if read is None:
        return
    other = second_opinion(data)
    assert other is not None
    assert (read.method, read.target) == (other.method, other.target)
    fields = [(bytes(name).lower(), bytes(value)) for name, value in other.headers]
    assert [(lower, _as_h11_tells(lower, value)) for lower, _, value in read.fields] == fields
    route = find_route(read.target)
    target = route.target if route is not None else read.target
    sent = second_opinion(rebuild(read, target, "id").replace(b"\r\n", b"\r\nHost: a\r\n", 1))
    assert sent is not None
    assert (sent.method, sent.target) == (read.method, target)
    names = {bytes(name) for name, _ in sent.headers}
    assert not names & {b"authorization", b"cookie", b"impersonate-user", b"impersonate-group"}


def _as_h11_tells(name: bytes, value: bytes) -> bytes:
    return value.lower() if name == b"transfer-encoding" else value


def accepted(data: bytes) -> RequestHead | None:
    """The head as the proxy reads it; None: it refuses."""
    try:
        read = parse_head(data, LIMITS)
        validate_head(read)
    except BadHead as refused:
        assert 400 <= refused.status < 600
        return None
    return read


def second_opinion(data: bytes) -> h11.Request | None:
    """The head as h11 reads it; None: it refuses, or wants more."""
    connection = h11.Connection(h11.SERVER, max_incomplete_event_size=1 << 20)
    try:
        connection.receive_data(data)
        event = connection.next_event()
    except h11.RemoteProtocolError:
        return None
    return event if isinstance(event, h11.Request) else None


def answer(data: bytes) -> None:
    """An answer is the same however it is cut; not one byte is passed on behind its end."""
    upgrade, step, data = bool(data[:1] > b"\x7f"), 1 + data[0] % 7 if data else 1, data[1:]
    assert _observed([data], upgrade) == _observed(
        [data[at : at + step] for at in range(0, len(data), step)], upgrade
    )


def _observed(pieces: list[bytes], upgrade: bool) -> tuple[object, ...] | None:
    observer, passed = ResponseObserver(upgrade=upgrade), b""
    try:
        for piece in pieces:
            if piece:
                passed += bytes(observer.feed(piece))
    except BadResponse:
        return None
    return observer.status, observer.complete, observer.upgraded, passed


def chunks(data: bytes) -> None:
    """A chunked body has the same payload and end however it is cut."""
    step, data = 1 + data[0] % 7 if data else 1, data[1:]
    whole = _chunked([data])
    cut = _chunked([data[at : at + step] for at in range(0, len(data), step)])
    assert whole == cut


def _chunked(pieces: list[bytes]) -> tuple[bool, int, bytes] | None:
    reader, used, payload = ChunkedReader(), 0, b""
    try:
        for piece in pieces:
            size, found = reader.feed(piece)
            used, payload = used + size, payload + b"".join(found)
    except BadChunk:
        return None
    return reader.done, used, payload


def proxy_header(data: bytes) -> None:
    """A header of the PROXY protocol is read without the bytes after it, and within its bound."""
    at = 0

    async def receive(size: int) -> bytes:
        nonlocal at
        if at + size > len(data):
            raise EOFError
        at += size
        return data[at - size : at]

    try:
        read_header(receive).send(None)
    except StopIteration as ended:
        client: Address | None = ended.value
        assert client is None or ip_address(client[0]) and 0 <= client[1] <= 0xFFFF
        assert data[:6] == b"PROXY " and data[at - 2 : at] == b"\r\n" or data[:4] == b"\r\n\r\n"
    except (BadProxyHeader, EOFError):
        pass
    assert at <= 16 + MAX_V2


TARGETS: dict[str, Callable[[bytes], None]] = {
    one.__name__: one for one in (frames, link, http2, head, answer, chunks, proxy_header)
}

_HELLO_FRAME = codec.header(0, codec.HELLO, len(HELLO.pack())) + HELLO.pack()
_DATA_FRAME = codec.header(1, codec.DATA | codec.END, 5) + b"hello"
_OPEN_FRAME = codec.header(1, codec.OPEN, len(REQUEST.pack(9))) + REQUEST.pack(9)
_HTTP2_OPEN, _HTTP2_DATA = frame(HEADERS, 4, 1, header_block()), frame(DATA, 9, 1, b"\x02hello..")
_HTTP2_ENDS = frame(HEADERS, 5, 1, b"\x88") + goaway(1, ErrorCode.NO_ERROR, "soon")
_HTTP2_WINDOWS = frame(4, 0, 0, b"\0\4\0\0\0\0") + window_update(1, 9) + window_update(0, 9)
SEEDS: dict[str, list[bytes]] = {
    "frames": [_HELLO_FRAME, _DATA_FRAME + _OPEN_FRAME],
    "link": [
        b"\x01" + bytes([len(_DATA_FRAME)]) + _DATA_FRAME,
        b"\x00" + bytes([len(_OPEN_FRAME)]) + _OPEN_FRAME,
    ],
    "http2": [
        b"\x00" + bytes([len(_HTTP2_OPEN)]) + _HTTP2_OPEN + bytes([len(_HTTP2_DATA)]) + _HTTP2_DATA,
        b"\x00"
        + bytes([len(_HTTP2_OPEN)])
        + _HTTP2_OPEN
        + b"\x0d"
        + rst_stream(1, ErrorCode.CANCEL),
        b"\x01" + bytes([len(_HTTP2_WINDOWS)]) + _HTTP2_WINDOWS,
        b"\x01" + bytes([len(_HTTP2_ENDS)]) + _HTTP2_ENDS,
    ],
    "head": [
        b"GET /k8s/clusters/dev/api/v1/pods?watch=1 HTTP/1.1\r\nHost: a\r\n"
        b"Authorization: Bearer t\r\nImpersonate-User: b\r\n\r\n",
        b"POST  /k8s/clusters/dev HTTP/1.1\r\nHost: a\r\n\r\n",
        b"POST /k8s/clusters/dev/api HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    ],
    "answer": [
        b"\x02HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc",
        b"\x80HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\nraw",
        b"\x01HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    ],
    "proxy_header": [
        b"PROXY TCP4 203.0.113.9 10.0.0.1 4711 443\r\nGET",
        b"PROXY UNKNOWN\r\n",
        b"\r\n\r\n\0\r\nQUIT\n\x21\x11\0\x0c\xcb\0\x71\x09\x0a\0\0\x01\x12\x67\x01\xbb",
        b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0",
    ],
    "chunks": [b"\x003\r\nabc\r\n0\r\n\r\nmore", b"\x013;a=b\r\nabc\r\n0\r\nx: y\r\n\r\n"],
}
