"""Recordings of a terminal session, read from bytes cut anywhere."""

import base64
import json
import struct
import zlib
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from wsproto.connection import Connection, ConnectionType
from wsproto.events import BytesMessage, Ping, TextMessage

from core.errors import Forbidden
from core.mux.codec import Buffer
from proxy.domain.access import RecordingPolicy
from proxy.domain.attributes import read_attributes
from proxy.domain.audit import RequestRecord
from proxy.domain.limits import HeadLimits, StreamLimits
from proxy.domain.terminal import TerminalSession, UnrecordableError, terminal_session
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.parser import RequestParser
from proxy.gateway.record.metrics import ProxyMetrics
from proxy.gateway.record.open_requests import OpenRequests
from proxy.gateway.record.recorder import NoSessionRecorder, RequestRecorder
from proxy.recording.asciicast import AsciicastWriter
from proxy.recording.session import LiveRecording
from proxy.recording.spdy import DICTIONARY
from tests.fakes.clock import FakeClock
from tests.fakes.kube_proxy import FakeInstallation

MEBIBYTE = 1 << 20
CHANNELS = ("stdin", "stdout", "stderr", "error", "resize")
Said = list[tuple[int, bytes]]


def tape(*, spdy: bool = False, keep_input: bool = True, most: int = MEBIBYTE) -> LiveRecording:
    session = TerminalSession("create pods/exec a/b", spdy=spdy, keep_input=keep_input)
    record = RequestRecord(
        "0" * 32, datetime(2026, 1, 1, tzinfo=UTC), "", "", "dev", "GET", upgrade=True
    )
    return LiveRecording(AsciicastWriter(FakeClock(), record, session, most), session)


def kept(one: LiveRecording, code: str) -> str:
    """Recorded data with this code."""
    events = [json.loads(line) for line in one.cast.pending[1:]]
    return "".join(text for _, kind, text in events if kind == code)


def cut(data: bytes, sizes: Iterable[int], feed: Callable[[Buffer], None]) -> None:
    """Feed bytes in pieces of these sizes, the rest at once."""
    at = 0
    for size in sizes:
        feed(data[at : at + size])
        at += size
    feed(data[at:])


def websocket(said: Said, side: ConnectionType, parts: int) -> bytes:
    """Messages with their channel, each in so many fragments, pings between them."""
    connection = Connection(side)
    sent = b""
    for channel, payload in said:
        message = bytes([channel]) + payload
        step = max(1, len(message) // parts)
        pieces = [message[at : at + step] for at in range(0, len(message), step)]
        for number, piece in enumerate(pieces):
            last = number == len(pieces) - 1
            sent += connection.send(BytesMessage(data=piece, message_finished=last))
        sent += connection.send(Ping(b"ping"))
    return sent


class SpdyClient:
    """The part of SPDY/3.1 that opens streams and sends data on them."""

    def __init__(self) -> None:
        self._deflate = zlib.compressobj(
            9, zlib.DEFLATED, 15, 9, zlib.Z_DEFAULT_STRATEGY, DICTIONARY
        )

    def open(self, stream: int, kind: str) -> bytes:
        return self.open_with(stream, [("streamtype", kind), ("port", "80")])

    def open_with(self, stream: int, headers: list[tuple[str, str]]) -> bytes:
        plain = struct.pack(">I", len(headers))
        for text in (one for pair in headers for one in pair):
            plain += struct.pack(">I", len(text)) + text.encode()
        block = self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        body = struct.pack(">IIH", stream, 0, 0) + block
        return struct.pack(">HHI", 0x8003, 1, len(body)) + body

    def data(self, stream: int, payload: bytes) -> bytes:
        return struct.pack(">II", stream, len(payload)) + payload

    def ping(self) -> bytes:
        return struct.pack(">HHII", 0x8003, 6, 4, 1)


PIECES = st.lists(st.binary(min_size=1, max_size=300), max_size=6)
SIZES = st.lists(st.integers(1, 50), max_size=30)


@settings(deadline=None)
@given(PIECES, PIECES, SIZES, st.integers(1, 3))
def test_websocket_sessions_are_kept_whole(
    shown: list[bytes], typed: list[bytes], sizes: list[int], parts: int
) -> None:
    """Both outputs and the input, however frames and bytes are cut; errors are not shown."""
    one = tape()
    out: Said = [(1 + number % 2, data) for number, data in enumerate(shown)] + [(3, b"{}")]
    cut(websocket(out, ConnectionType.SERVER, parts), sizes, one.from_cluster)
    into: Said = [(0, data) for data in typed] + [(4, b'{"Width":100,"Height":40}')]
    cut(websocket(into, ConnectionType.CLIENT, parts), sizes, one.from_user)
    assert kept(one, "o").rstrip("\ufffd") == decoded(shown).rstrip("\ufffd")
    assert kept(one, "i").rstrip("\ufffd") == decoded(typed).rstrip("\ufffd")
    assert kept(one, "r") == "100x40"


def decoded(pieces: list[bytes]) -> str:
    return b"".join(pieces).decode(errors="replace")


@settings(deadline=None)
@given(PIECES, PIECES, SIZES)
def test_spdy_sessions_are_kept_whole(
    shown: list[bytes], typed: list[bytes], sizes: list[int]
) -> None:
    """The client's stream type identifies a stream, in whatever order they open."""
    one, client = tape(spdy=True), SpdyClient()
    streams = {kind: 2 * number + 1 for number, kind in enumerate(reversed(CHANNELS))}
    parsed_request = b"".join(client.open(stream, kind) for kind, stream in streams.items())
    into = b"".join(client.data(streams["stdin"], data) for data in typed)
    resize = client.data(streams["resize"], b'{"Width":100,"Height":40}\n')
    cut(parsed_request + client.ping() + into + resize, sizes, one.from_user)
    out = b"".join(client.data(streams["stdout"], data) for data in shown)
    cut(client.data(streams["error"], b"x") + out, sizes, one.from_cluster)
    assert kept(one, "o").rstrip("\ufffd") == decoded(shown).rstrip("\ufffd")
    assert kept(one, "i").rstrip("\ufffd") == decoded(typed).rstrip("\ufffd")
    assert kept(one, "r") == "100x40"


@pytest.mark.parametrize("spdy", [True, False])
def test_input_is_kept_only_if_the_policy_says_so(spdy: bool) -> None:
    """Typed input may be a password."""
    one = tape(spdy=spdy, keep_input=False)
    if spdy:
        client = SpdyClient()
        one.from_user(client.open(1, "stdin") + client.data(1, b"secret"))
    else:
        one.from_user(websocket([(0, b"secret")], ConnectionType.CLIENT, 1))
    assert kept(one, "i") == ""
    assert b"secret" not in b"".join(one.cast.pending)


def test_base64_channels_are_read() -> None:
    """The protocol of clients that have text messages only."""
    one, connection = tape(), Connection(ConnectionType.SERVER)
    text = "1" + base64.b64encode(b"hello").decode()
    one.from_cluster(connection.send(TextMessage(data=text)))
    assert kept(one, "o") == "hello"


def test_characters_cut_in_two_are_whole_on_tape() -> None:
    """A terminal's bytes do not end where its characters do."""
    one = tape()
    data = "größer".encode()
    for byte in data:
        one.from_cluster(websocket([(1, bytes([byte]))], ConnectionType.SERVER, 1))
    assert kept(one, "o") == "größer"


def test_a_recording_is_bounded_and_says_so() -> None:
    """The session goes on; what is too much is left out."""
    one = tape(most=1000)
    for _ in range(100):
        one.from_cluster(websocket([(1, b"x" * 100)], ConnectionType.SERVER, 1))
    assert len(b"".join(one.cast.pending)) < 2000
    assert one.cast.truncated
    assert kept(one, "m") == "recording truncated: maximum size reached"


NONSENSE = {
    "compressed WebSocket": (False, b"\xc2\x05\x01abcd"),
    "text that is no channel": (False, b"\x81\x02xx"),
    "endless text": (False, b"\x01\x7f" + struct.pack(">Q", 2 << 20) + b"1" * (2 << 20)),
    "other version of SPDY": (True, struct.pack(">HHI", 0x8002, 1, 10) + bytes(10)),
    "huge control frame": (True, struct.pack(">HHI", 0x8003, 1, 0xFFFFFF)),
    "headers that are no zlib": (True, struct.pack(">HHI", 0x8003, 1, 20) + b"x" * 20),
    "short frame": (True, struct.pack(">HHI", 0x8003, 1, 4) + b"x" * 4),
}


@pytest.mark.parametrize("name", NONSENSE)
def test_an_unreadable_protocol_ends_the_recorded_session(name: str) -> None:
    """A protocol of one's own does not get around the recording."""
    spdy, data = NONSENSE[name]
    with pytest.raises(UnrecordableError):
        tape(spdy=spdy).from_user(data)


def test_spdy_streams_are_bounded() -> None:
    """A client cannot fill memory with names of streams."""
    one, client = tape(spdy=True), SpdyClient()
    with pytest.raises(UnrecordableError):
        for number in range(100):
            one.from_user(client.open(2 * number + 1, "stdout"))


@settings(deadline=None)
@given(st.binary(max_size=400), st.booleans())
def test_any_bytes_are_read_or_refused(data: bytes, spdy: bool) -> None:
    """Nothing but `UnrecordableError`, whatever comes."""
    one = tape(spdy=spdy)
    for feed in (one.from_user, one.from_cluster):
        try:
            feed(data)
        except UnrecordableError as refused:
            assert str(refused)


@pytest.mark.parametrize(
    ("target", "method", "kept_as"),
    [
        ("/api/v1/namespaces/a/pods/b/exec?command=sh&command=-c&tty=true", "GET", ("sh", "-c")),
        ("/api/v1/namespaces/a/pods/b/attach?container=c", "POST", ()),
        ("/api/v1/namespaces/a/pods/b/portforward", "POST", None),
        ("/api/v1/namespaces/a/pods/b/log", "GET", None),
        ("/apis/x.example/v1/namespaces/a/pods2/b/exec", "GET", None),
    ],
)
def test_only_terminals_are_sessions(
    target: str, method: str, kept_as: tuple[str, ...] | None
) -> None:
    """Exec and attach into pods; the command is kept as it was asked for."""
    make = partial(terminal_session, spdy=False, keep_input=False)
    session = make(read_attributes(method, target), target.partition("?")[2])
    assert (session.command if session else None) == kept_as


MANY = [(f"x-{number}", "y") for number in range(64)]


@pytest.mark.parametrize(
    "headers",
    [
        [("streamtype", "stdout\0x")],
        [*MANY, ("streamtype", "stdout")],
        [("streamtype", "error"), ("Streamtype", "stdout")],
        [("streamtype", "Stdout")],
        [("port", "80")],
    ],
    ids=["two values", "many headers", "two types", "another case", "no type"],
)
def test_a_stream_that_the_server_could_read_otherwise_ends_the_session(
    headers: list[tuple[str, str]],
) -> None:
    """Go splits values at NUL, ignores the case of names and takes the first value."""
    one, client = tape(spdy=True), SpdyClient()
    with pytest.raises(UnrecordableError):
        one.from_user(client.open_with(1, headers))
    one, client = tape(spdy=True), SpdyClient()
    one.from_user(client.open_with(1, [("StreamType", "stdout")]))
    one.from_cluster(client.data(1, b"shown"))
    assert kept(one, "o") == "shown"
    for sent in (client.open(1, "error"), client.data(3, b"hidden")):
        with pytest.raises(UnrecordableError):
            one.from_user(sent)


@pytest.mark.parametrize(
    "path",
    [
        "/api/v1/nodes/n1/proxy/exec/a/p/c?command=sh&output=1",
        "/api/v1/nodes/n1:10250/proxy/run/a/p/c?cmd=id",
        "/api/v1/nodes/n1/proxy/%65xec/a/p/c",
        "/api/v1/nodes/n1/proxy",
        "/api/v1/proxy/nodes/n1/exec/a/p/c",
    ],
)
async def test_a_session_that_must_be_recorded_does_not_go_through_a_node(path: str) -> None:
    """With and without an upgrade; without the policy it may."""
    recorder = RequestRecorder(
        FakeInstallation(), NoSessionRecorder(), OpenRequests(StreamLimits()), ProxyMetrics()
    )
    record = RequestRecord(
        "0" * 32, datetime(2026, 1, 1, tzinfo=UTC), "", "", "dev", "POST", upgrade=False
    )
    record.attributes = read_attributes("POST", path)
    head = f"POST /k8s/clusters/dev{path} HTTP/1.1\r\nHost: x\r\n\r\n".encode()
    parsed, _ = RequestParser(HeadLimits()).parse(head) or (None, b"")
    assert isinstance(parsed, ParsedRequest)
    for policy in (RecordingPolicy.OUTPUT, RecordingPolicy.ALL):
        with pytest.raises(Forbidden, match="nodes/proxy"):
            await recorder.start_session(record, parsed, policy)
    assert await recorder.start_session(record, parsed, RecordingPolicy.OFF) is None
