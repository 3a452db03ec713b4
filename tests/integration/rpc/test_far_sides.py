"""Far sides that are no hub, not the one that was meant, or no gRPC; and clear words about them."""

import asyncio
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager, closing, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import grpc
import grpc.aio
import hpack
import pytest

from core.errors import Invalid
from core.http1 import proxy_connect
from core.http2 import frames
from core.http2.frames import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEAD_SIZE,
    HEADERS,
    PING,
    PREFACE,
    RST_STREAM,
    ErrorCode,
    frame,
)
from core.rpc import http2_server
from core.rpc.calls import Call, CallFailed, CallStatus, Handler, ServerLimits
from core.rpc.http2_channel import CallTarget, Http2Channel, client_tls
from core.rpc.http2_server import Http2Server
from core.rpc.implementations import GrpcImplementation
from core.runtime.clock import Clock, SystemClock
from syncagent.link.channel import Endpoint
from tests.fakes.clock import FakeClock
from tests.fakes.http2 import header_block
from tests.fakes.local_server import LocalServer
from tests.fakes.tls import TestAuthority
from tests.planes import needs_native

WITHOUT_CALL = 30.0
CALLS = 8
MORE_THAN_SOCKETS_HOLD = 32 << 20
PINGED = frame(PING, 0, 0, bytes(8))


async def echo(call: Call) -> None:
    """Says what it hears."""
    while (message := await call.read()) is not None:
        await call.write(message)


@asynccontextmanager
async def server(
    clock: Clock | None = None, authority: TestAuthority | None = None
) -> AsyncGenerator[int]:
    """An echo at /echo."""
    limits = ServerLimits(idle_seconds=WITHOUT_CALL, message=1000)
    serving = Http2Server({"/echo": echo}, limits, clock or SystemClock())
    port = await serving.start(("127.0.0.1", 0), authority)
    try:
        yield port
    finally:
        await serving.stop()


@asynccontextmanager
async def served_by(
    handler: Handler, clock: Clock | None = None
) -> AsyncGenerator[tuple[Http2Server, int]]:
    """This at /echo."""
    limits = ServerLimits(idle_seconds=WITHOUT_CALL, calls=CALLS)
    serving = Http2Server({"/echo": handler}, limits, clock or SystemClock())
    port = await serving.start(("127.0.0.1", 0), None)
    try:
        yield serving, port
    finally:
        await serving.stop()


def greeted(port: int) -> socket.socket:
    """A connection that has said its first words, and blocks."""
    raw = socket.create_connection(("127.0.0.1", port))
    raw.sendall(PREFACE + frames.settings({}))
    return raw


@asynccontextmanager
async def far_side(
    answer: bytes, tls: ssl.SSLContext | None = None, *, ends: bool = False
) -> AsyncGenerator[tuple[int, bytearray]]:
    """Says this to everybody as soon as it is spoken to; its port, and what it has heard."""
    heard = bytearray()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.extend(await reader.read(1 << 16))
        writer.write(answer)
        while not ends and (more := await reader.read(1 << 16)):
            heard.extend(more)

    async with LocalServer(serve, tls=tls) as server:
        yield server.port, heard


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


async def refusal(target: CallTarget) -> str:
    """The error message of a call to the target; its status must be UNAVAILABLE."""
    channel = Http2Channel(target, SystemClock())
    try:
        with pytest.raises(CallFailed) as failed:
            async with asyncio.timeout(20):
                await (await channel.call("/echo", ())).read()
        assert failed.value.status is CallStatus.UNAVAILABLE
        return failed.value.message
    finally:
        await channel.close()


# Certificates


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"host": "localhost", "until": datetime(2021, 1, 1, tzinfo=UTC)}, "has expired"),
        ({"host": "another"}, "not valid for 'localhost'"),
    ],
    ids=["expired", "of another name"],
)
async def test_a_certificate_that_is_not_good(options: dict, text: str, tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path, **options)
    async with server(authority=authority) as port:
        tls = client_tls(authority.ca.read_bytes())
        message = await refusal(CallTarget("localhost", port, tls))
    assert f"localhost:{port}: its certificate is not valid" in message and text in message


async def test_a_certificate_of_an_authority_that_is_not_ours(tmp_path: Path) -> None:
    ours, theirs = (TestAuthority(_folder(tmp_path, name)) for name in ("ours", "theirs"))
    async with server(authority=theirs) as port:
        message = await refusal(CallTarget("127.0.0.1", port, client_tls(ours.ca.read_bytes())))
    assert "its certificate is not valid" in message


def _folder(parent: Path, name: str) -> Path:
    (parent / name).mkdir()
    return parent / name


@pytest.mark.parametrize("wire", GrpcImplementation)
async def test_the_certificate_itself_may_be_what_is_trusted(
    wire: GrpcImplementation, tmp_path: Path
) -> None:
    """Whoever speaks: agents that one of them connects the other does, too."""
    authority = TestAuthority(tmp_path)
    async with server(authority=authority) as port:
        endpoint = Endpoint(f"https://127.0.0.1:{port}", "", authority.certificate.read_bytes())
        channel = replace(endpoint, wire=wire).connect(SystemClock())
        call = await channel.call("/echo", ())
        await call.write(b"a")
        assert await call.read() == b"a"
        await channel.close()


@pytest.mark.parametrize("ca", [b"", b"\n", b"nothing"], ids=["empty", "blank", "no PEM"])
def test_trust_in_nobody_is_no_trust_in_everybody(ca: bytes) -> None:
    """A file that was emptied does not mean the authorities of the machine."""
    with pytest.raises(Invalid, match="no readable certificates"):
        client_tls(ca)


async def test_the_name_asked_for_is_the_one_that_is_looked_for(tmp_path: Path) -> None:
    """Where the address is not what the certificate says."""
    authority = TestAuthority(tmp_path, host="hub.example")
    async with server(authority=authority) as port:
        tls = client_tls(authority.ca.read_bytes())
        channel = Http2Channel(CallTarget("127.0.0.1", port, tls, "hub.example"), SystemClock())
        call = await channel.call("/echo", ())
        await call.write(b"a")
        assert (await call.read(), call.peer) == (b"a", f"hub.example:{port}")
        await channel.close()


# Far sides that speak otherwise


@pytest.mark.parametrize("ends", [False, True], ids=["and waits", "and ends"])
async def test_a_far_side_that_speaks_http_1(ends: bool) -> None:
    answer = b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"
    async with far_side(answer, ends=ends) as (port, _):
        assert "HTTP/1" in await refusal(CallTarget("127.0.0.1", port))


async def test_a_far_side_that_agrees_upon_http_1_only(tmp_path: Path) -> None:
    authority = TestAuthority(tmp_path)
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(authority.certificate, authority.key)
    tls.set_alpn_protocols(["http/1.1"])
    async with far_side(b"", tls, ends=True) as (port, _):
        target = CallTarget("127.0.0.1", port, client_tls(authority.ca.read_bytes()))
        assert "does not support HTTP/2" in await refusal(target)


async def test_a_far_side_without_tls(tmp_path: Path) -> None:
    async with server() as port:
        tls = client_tls(TestAuthority(tmp_path).ca.read_bytes())
        message = await refusal(CallTarget("127.0.0.1", port, tls))
    assert message.startswith(f"127.0.0.1:{port}: ") and not message.endswith(": ")


async def test_a_far_side_that_ends_at_once(tmp_path: Path) -> None:
    """The call fails with a reason, in whatever state the far side leaves."""
    for tls in (None, client_tls(TestAuthority(tmp_path).ca.read_bytes())):
        async with far_side(b"", ends=True) as (port, _):
            message = await refusal(CallTarget("127.0.0.1", port, tls))
        assert message and not message.endswith(": ")


@pytest.mark.parametrize("dead", ["of a family that is off", "that drops all"])
async def test_an_address_that_leads_nowhere_is_passed_over(
    dead: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name may have several, of two kinds; those behind it are tried, too."""
    monkeypatch.setattr(proxy_connect, "ADDRESS_SECONDS", 0.05)
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [socket.socket() for _ in range(4)]
    for one in waiting:
        one.setblocking(False)
        one.connect_ex(full.getsockname())
    family = socket.AF_INET if dead == "that drops all" else 12345

    async def addresses(*_: object, **__: object) -> list[tuple]:
        kind = socket.SOCK_STREAM
        return [
            (family, kind, 0, "", full.getsockname()),
            (socket.AF_INET, kind, 0, "", ("127.0.0.1", port)),
        ]

    async with server() as port:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        channel = Http2Channel(CallTarget("hub.example", port), SystemClock())
        async with asyncio.timeout(20):
            call = await channel.call("/echo", ())
            await call.write(b"a")
            assert await call.read() == b"a"
        await channel.close()
    for one in (full, *waiting):
        one.close()


async def test_closing_a_channel_during_a_dial_keeps_no_connection() -> None:
    async with server() as port:
        channel = Http2Channel(CallTarget("127.0.0.1", port), SystemClock())
        calling = asyncio.ensure_future(channel.call("/echo", ()))
        await asyncio.sleep(0)
        await channel.close()
        with pytest.raises(CallFailed, match="closed"):
            await calling
        await until(lambda: not list(channel._open))


async def test_a_far_side_that_is_silent_is_left(tmp_path: Path) -> None:
    """After two minutes or more it gets a ping, and 20 s later the call fails."""
    clock = FakeClock()
    async with far_side(frames.settings({})) as (port, heard):
        channel = Http2Channel(CallTarget("127.0.0.1", port), clock)
        call = await channel.call("/echo", ())
        await call.write(b"hello")
        await until(lambda: b"hello" in heard)
        reading = asyncio.ensure_future(call.read())
        await until(lambda: clock.sleepers)
        await clock.advance(239)
        assert PINGED not in heard
        await clock.advance(2)
        await until(lambda: PINGED in heard)
        await clock.advance(20)
        with pytest.raises(CallFailed, match="does not answer") as failed:
            await reading
        assert failed.value.status is CallStatus.UNAVAILABLE
        await asyncio.gather(channel.close(), clock.advance(5))


async def test_a_far_side_that_answers_pings_is_kept() -> None:
    """However long it has nothing else to say."""
    clock = FakeClock()
    async with server() as port:
        channel = Http2Channel(CallTarget("127.0.0.1", port), clock)
        call = await channel.call("/echo", ())
        await call.write(b"a")
        assert await call.read() == b"a"
        await until(lambda: clock.sleepers)
        await clock.advance(120)
        for _ in range(3):
            heard = _frames_in(channel)
            await until(lambda: clock.sleepers)
            await clock.advance(121)
            await until(lambda heard=heard: _frames_in(channel) > heard)
            await clock.advance(20)
        await call.write(b"b")
        assert await call.read() == b"b"
        await asyncio.gather(channel.close(), clock.advance(5))


def _frames_in(channel: Http2Channel) -> int:
    return sum(connection.frames_in for connection in channel._open)


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
async def test_a_tls_handshake_during_shutdown_is_not_accepted(
    tmp_path: Path, native: bool
) -> None:
    authority, loop = TestAuthority(tmp_path), asyncio.get_running_loop()
    serving = Http2Server({"/echo": echo}, ServerLimits(), SystemClock(), native_tls=native)
    port = await serving.start(("127.0.0.1", 0), authority)
    heard, said = ssl.MemoryBIO(), ssl.MemoryBIO()
    tls = client_tls(authority.ca.read_bytes()).wrap_bio(heard, said, server_hostname="127.0.0.1")
    with socket.socket() as raw:
        raw.setblocking(False)
        await loop.sock_connect(raw, ("127.0.0.1", port))
        stopped = False
        async with asyncio.timeout(20):
            while not _shaken(tls):
                await loop.sock_sendall(raw, said.read())
                heard.write(await loop.sock_recv(raw, 1 << 16))
                if not stopped:
                    await serving.stop()
                    stopped = True
            await loop.sock_sendall(raw, said.read())
            with suppress(ConnectionError):
                while await loop.sock_recv(raw, 1 << 16):
                    pass


def _shaken(tls: ssl.SSLObject) -> bool:
    try:
        tls.do_handshake()
    except ssl.SSLWantReadError:
        return False
    return True


# Callers that are none


@pytest.fixture
async def stranger() -> AsyncIterator[tuple[FakeClock, socket.socket]]:
    """A connection to a server whose time stands still, greeted."""
    clock = FakeClock()
    async with server(clock) as port:
        with closing(socket.create_connection(("127.0.0.1", port))) as raw:
            raw.setblocking(False)
            await asyncio.get_running_loop().sock_sendall(raw, PREFACE + frames.settings({}))
            yield clock, raw


async def heard_until(raw: socket.socket, *kinds: int) -> list[tuple[int, int, bytes]]:
    """Kind, stream and payload of each frame, up to the first of these kinds."""
    found: list[tuple[int, int, bytes]] = []
    async with asyncio.timeout(20):
        while not found or found[-1][0] not in kinds:
            head = await _exactly(raw, HEAD_SIZE)
            payload = await _exactly(raw, int.from_bytes(head[:3], "big"))
            found.append((head[3], int.from_bytes(head[5:], "big"), payload))
    return found


async def _exactly(raw: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(raw, size - len(data))
        assert piece, "it has ended"
        data += piece
    return data


@pytest.mark.parametrize(
    ("method", "kind", "status"),
    [
        ("GET", "application/grpc", "405"),
        ("POST", "text/html", "415"),
        ("POST", "", "415"),
        ("POST", "application/json", "415"),
    ],
)
async def test_a_request_that_is_not_grpc_gets_an_http_status(
    stranger: tuple[FakeClock, socket.socket], method: str, kind: str, status: str
) -> None:
    """And its stream ends, even if it goes on to send."""
    _, raw = stranger
    named = [("content-type", kind)] if kind else []
    head = [(":method", method), (":scheme", "http"), (":path", "/echo"), *named]
    await asyncio.get_running_loop().sock_sendall(
        raw, frame(HEADERS, END_HEADERS, 1, header_block(head)) + frame(DATA, 0, 1, bytes(100))
    )
    answered, reset = (await heard_until(raw, RST_STREAM))[-2:]
    assert answered[:2] == (HEADERS, 1)
    assert list(hpack.Decoder().decode(answered[2])) == [(":status", status)]
    assert reset == (RST_STREAM, 1, bytes(4))


async def test_an_idle_connection_gets_goaway(
    stranger: tuple[FakeClock, socket.socket],
) -> None:
    """Pings keep nobody; a call does, as long as it is open."""
    clock, raw = stranger
    head = [(":method", "POST"), (":path", "/echo"), ("content-type", "application/grpc")]
    loop = asyncio.get_running_loop()
    await loop.sock_sendall(raw, frame(HEADERS, END_HEADERS, 1, header_block(head)))
    await loop.sock_sendall(raw, frame(DATA, 0, 1, b"\0\0\0\0\1a"))
    await heard_until(raw, DATA)
    await clock.advance(5 * WITHOUT_CALL)
    await loop.sock_sendall(raw, frame(DATA, END_STREAM, 1))
    await heard_until(raw, RST_STREAM, HEADERS)
    await clock.advance(WITHOUT_CALL / 2)
    await loop.sock_sendall(raw, PINGED)
    await heard_until(raw, PING)
    await clock.advance(WITHOUT_CALL)
    *_, (_, _, payload) = await heard_until(raw, GOAWAY)
    assert payload[4:8] == bytes(4) and b"no recent call" in payload


async def test_a_compressed_message_is_refused_by_name() -> None:
    """Of a client that compresses; the call beside it goes on."""
    async with (
        server() as port,
        grpc.aio.insecure_channel(
            f"127.0.0.1:{port}", compression=grpc.Compression.Gzip
        ) as channel,
    ):
        call = channel.stream_stream("/echo")()
        await call.write(b"a" * 900)
        assert await call.code() is grpc.StatusCode.UNIMPLEMENTED
        assert "compressed" in (await call.details() or "")


async def test_a_stranger_that_breaks_the_rules_is_cut_off(
    stranger: tuple[FakeClock, socket.socket],
) -> None:
    """The socket is closed, not only the talk."""
    _, raw = stranger
    await asyncio.get_running_loop().sock_sendall(raw, frame(DATA, 0, 1, bytes(20)))
    *_, (_, _, payload) = await heard_until(raw, GOAWAY)
    assert int.from_bytes(payload[4:8], "big") == ErrorCode.PROTOCOL_ERROR
    async with asyncio.timeout(20):
        assert await asyncio.get_running_loop().sock_recv(raw, 1) == b""


async def test_calls_that_are_cut_off_at_once_count_until_their_handlers_have_ended() -> None:
    """CVE-2023-44487: what a handler waits for is not asked for by more at a time than may call."""
    running, most, go_on = 0, 0, asyncio.Event()

    async def wait(call: Call) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await go_on.wait()
        running -= 1

    async with served_by(wait) as (_, port):
        raw = greeted(port)
        head = [(":method", "POST"), (":path", "/echo"), ("content-type", "application/grpc")]
        encoder = hpack.Encoder()
        for stream_id in range(1, 401, 2):
            opened = frame(HEADERS, END_HEADERS, stream_id, encoder.encode(head))
            raw.sendall(opened + frames.rst_stream(stream_id, ErrorCode.CANCEL))
        raw.sendall(PINGED)
        raw.setblocking(False)
        await heard_until(raw, PING)
        await until(lambda: most)
        assert most <= CALLS
        go_on.set()
        await until(lambda: not running)
        raw.close()


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
async def test_a_client_that_ignores_close_notify_delays_no_shutdown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, native: bool
) -> None:
    """Nobody calls any more, but its socket stays open."""
    monkeypatch.setattr(http2_server, "TLS_SHUTDOWN_SECONDS", 0.1)
    authority = TestAuthority(tmp_path)
    serving = Http2Server({"/echo": echo}, ServerLimits(), SystemClock(), native_tls=native)
    port = await serving.start(("127.0.0.1", 0), authority)
    tls = client_tls(authority.ca.read_bytes())
    raw = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
    secured = await asyncio.to_thread(tls.wrap_socket, raw, server_hostname="localhost")
    await until(lambda: list(serving._open))
    async with asyncio.timeout(15):
        await serving.stop(60.0)
    secured.close()


@pytest.mark.parametrize("native", [False, pytest.param(True, marks=needs_native)])
async def test_a_stopped_server_keeps_no_connection(tmp_path: Path, native: bool) -> None:
    """It aborts a connection whose client ignores both GOAWAY and close_notify."""
    authority = TestAuthority(tmp_path)
    serving = Http2Server({"/echo": echo}, ServerLimits(), SystemClock(), native_tls=native)
    port = await serving.start(("127.0.0.1", 0), authority)
    tls = client_tls(authority.ca.read_bytes())
    raw = await asyncio.to_thread(socket.create_connection, ("127.0.0.1", port))
    secured = await asyncio.to_thread(tls.wrap_socket, raw, server_hostname="localhost")
    await until(lambda: list(serving._open))
    await serving.stop()
    assert list(serving._open) == []
    secured.close()


async def test_a_client_that_does_not_read_its_refusal_is_cut_off() -> None:
    """Else what was meant for it would be kept as long as it likes."""
    clock, blocked = FakeClock(), asyncio.Event()

    async def write(call: Call) -> None:
        await call.write(bytes(MORE_THAN_SOCKETS_HOLD))
        blocked.set()
        await call.read()

    async with served_by(write, clock) as (serving, port):
        raw = greeted(port)
        head = [(":method", "POST"), (":path", "/echo"), ("content-type", "application/grpc")]
        raw.sendall(frame(HEADERS, END_HEADERS, 1, header_block(head)))
        raw.sendall(frames.window_update(0, 1 << 30) + frames.window_update(1, 1 << 30))
        async with asyncio.timeout(20):
            await blocked.wait()
        raw.sendall(frame(DATA, 0, 99, bytes(20)))
        await until(lambda: all(connection.closed for connection in serving._open))
        assert list(serving._open)
        await clock.advance(2 * WITHOUT_CALL)
        await until(lambda: not list(serving._open))
        raw.close()


async def test_connections_without_a_response_are_bounded_for_each_address() -> None:
    """The oldest ones end; a client of grpcio that got a response is not among them."""
    limits = ServerLimits(unanswered=4)
    serving = Http2Server({"/echo": echo}, limits, SystemClock())
    port = await serving.start(("127.0.0.1", 0), None)
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call = channel.stream_stream("/echo")()
        await call.write(b"first")
        assert await call.read() == b"first"
        strangers = [greeted(port) for _ in range(12)]
        try:
            await until(lambda: sum(_is_ended(raw) for raw in strangers) == 8)
            assert [_is_ended(raw) for raw in strangers] == [True] * 8 + [False] * 4
            await call.write(b"still here")
            assert await call.read() == b"still here"
        finally:
            for raw in strangers:
                raw.close()
    await serving.stop()


def _is_ended(raw: socket.socket) -> bool:
    """Whether the server has closed a connection; reads what it said before."""
    raw.setblocking(False)
    try:
        while raw.recv(1 << 16):
            continue
    except BlockingIOError:
        return False
    except ConnectionError:
        return True
    return True
