"""HTTP/2 towards users: what a stream gets, how it ends, and what hostile connections cost."""

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import h2.errors
import pytest

from core.open_streams import ALL_STREAMS
from proxy.domain.audit import EndReason
from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts
from proxy.settings import DataPlane, ProxySettings
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.conftest import Kubectl
from tests.integration.proxy.http2_user import Http2User, http2_user
from tests.integration.proxy.recording import OK, RecordingUpstream, recording_upstream
from tests.integration.proxy.scripts import ENDLESS, hang, watching
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.planes import needs_native

pytestmark = needs_native
CALM = h2.errors.ErrorCodes.ENHANCE_YOUR_CALM
INTERNAL = h2.errors.ErrorCodes.INTERNAL_ERROR
PROTOCOL = h2.errors.ErrorCodes.PROTOCOL_ERROR
HEADERS, CONTINUATION = 1, 9
WATCH = "/api/v1/pods?watch=1"
HEAD = [(":method", "GET"), (":scheme", "https"), (":path", "/k8s/clusters/dev/api")]


@pytest.fixture
def settings() -> ProxySettings:
    return ProxySettings(data_plane=DataPlane.NATIVE)


@pytest.fixture
async def stack(authority: TestAuthority, settings: ProxySettings) -> AsyncIterator[Stack]:
    """A proxy with the native data plane."""
    async with run_stack(authority, settings) as running:
        yield running


@pytest.fixture
async def recorder(stack: Stack) -> AsyncIterator[RecordingUpstream]:
    """A stand-in for the API server, behind an agent whose data link is open."""
    async with recording_upstream() as server:
        await stack.connect(server.upstream)
        front, link = stack.proxy.front, stack.proxy.tunnels.find(CLUSTER)
        assert front is not None and link is not None
        await eventually(lambda: front.links.find_or_offer(link) > 0)
        yield server


@pytest.fixture
async def user(stack: Stack) -> AsyncIterator[Http2User]:
    async with http2_user(stack) as connected:
        yield connected


def served(stack: Stack) -> int:
    """Number of requests that the native hub has served and recorded."""
    assert stack.proxy.front is not None
    return stack.proxy.front.repeats.served


async def learn(stack: Stack, user: Http2User) -> None:
    """Asks until the native hub serves the request."""
    before = served(stack)
    for _ in range(3):
        assert (await user.get()).status == 200
    await eventually(lambda: served(stack) > before)


# What a stream gets


async def test_a_repeated_read_is_served_without_python(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Streams of one connection have the verdict, the head and the audit row of any request."""
    for _ in range(3):
        await user.get()
    streams = [user.ask() for _ in range(20)]
    responses = [await user.until(stream) for stream in streams]
    assert {(response.status, bytes(response.content)) for response in responses} == {(200, b"ok")}
    rows = stack.installation.closed_rows
    await eventually(lambda: len(rows) == 23)
    assert served(stack) >= 20
    assert len({row.id for row in rows}) == 23
    assert {row.source.partition(":")[0] for row in rows} == {"127.0.0.1"}
    assert len({head.split(b"\r\n")[0] for head in recorder.heads}) == 1


async def test_streams_of_one_connection_have_their_own_users(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """As behind an ingress: only the token of a request counts."""
    await learn(stack, user)
    assert (await user.get(token="unknown")).status == 401
    assert (await user.get(token="root-token")).status == 200
    assert (await user.get()).status == 200
    assert any(b"Impersonate-User: root" in head for head in recorder.heads)


@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize(
    ("answer", "closes", "status", "content", "early", "trailers"),
    [
        (OK, False, 200, b"ok", [], {}),
        (ENDLESS + b"2\r\nab\r\n1\r\nc\r\n0\r\n\r\n", False, 200, b"abc", [], {}),
        (ENDLESS + b"2\r\nab\r\n0\r\nX-End: 1\r\n\r\n", False, 200, b"ab", [], {"x-end": "1"}),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", True, 200, b"until the end", [], {}),
        (b"HTTP/1.1 204 No Content\r\n\r\n", False, 204, b"", [], {}),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", False, 200, b"", [], {}),
        (b"HTTP/1.1 304 Not Modified\r\nContent-Length: 9\r\n\r\n", False, 304, b"", [], {}),
        (b"HTTP/1.1 103 Early Hints\r\nLink: a\r\n\r\n" + OK, False, 200, b"ok", [103], {}),
    ],
)
async def test_every_kind_of_response_arrives(
    stack: Stack,
    recorder: RecordingUpstream,
    user: Http2User,
    known: bool,
    answer: bytes,
    closes: bool,
    status: int,
    content: bytes,
    early: list[int],
    trailers: dict[str, str],
) -> None:
    """Whatever ends it at the API server; no field describes the connection."""
    if known:
        await learn(stack, user)
    recorder.answer, recorder.close_after = answer, closes
    response = await user.get()
    assert (response.status, bytes(response.content)) == (status, content)
    assert (response.early, response.trailers, response.ended) == (early, trailers, True)
    assert not {"connection", "transfer-encoding", "keep-alive"} & set(response.fields)


@pytest.mark.parametrize(
    "settings", [ProxySettings(data_plane=DataPlane.NATIVE, cluster_domain="clusters.example.org")]
)
async def test_each_stream_goes_by_its_own_authority(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Browsers use one connection for all names of a certificate, console and clusters alike."""

    async def ask(authority: str) -> bytes:
        head = [*HEAD[:2], (":authority", authority), (":path", "/gql")]
        stream = user.send_head([*head, ("authorization", "Bearer ann-token")])
        return bytes((await user.until(stream)).content)

    for _ in range(6):
        assert await ask("dev.clusters.example.org:8443") == b"ok"
        assert await ask("DEV.clusters.example.org.") == b"ok"
        assert await ask("proxy") == b"GET /gql 0"
        assert b"the host must be" in await ask("a.dev.clusters.example.org")
    await eventually(lambda: served(stack) > 0)
    assert len(recorder.heads) == 12
    session = [("cookie", "towline_session=s"), ("x-towline-csrf", "1")]
    head = [*HEAD[:2], (":authority", "dev.clusters.example.org"), (":path", "/gql"), *session]
    assert (await user.until(user.send_head(head))).status == 401


async def test_a_head_request_gets_a_head(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """With the length of the content that it does not send."""
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n"
    for _ in range(4):
        response = await user.get(method="HEAD")
        assert (response.fields["content-length"], response.content) == ("2", b"")
    await eventually(lambda: served(stack) > 0)


async def test_content_arrives_whole_with_and_without_a_length(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Frames without data, among them, do not end it: behind them another request could hide."""
    for fields in [(), (("content-length", "6"),)]:
        stream = user.ask("/api/v1/pods", *fields, method="POST", ended=False)
        for piece in (b"abc", b"", b"def"):
            user.h2.send_data(stream, piece)
        user.h2.end_stream(stream)
        user.flush()
        assert (await user.until(stream)).status == 200
    chunked, counted = recorder.bodies
    assert (chunked.endswith(b"0\r\n\r\n"), chunked.count(b"\r\n0\r\n"), counted) == (
        True,
        1,
        b"abcdef",
    )
    assert len(recorder.heads) == 2


async def test_content_that_waits_for_a_permission_gets_it(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Expect: 100-continue, from one end to the other."""

    async def permit(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        recorder.bodies.append(await reader.readexactly(6))
        writer.write(OK)

    recorder.script = permit
    fields = (("content-length", "6"), ("expect", "100-continue"))
    stream = user.ask("/api/v1/pods", *fields, method="POST", ended=False)
    await eventually(lambda: user.responses[stream].early == [100])
    user.h2.send_data(stream, b"abcdef", end_stream=True)
    user.flush()
    assert (await user.until(stream)).content == b"ok"
    assert recorder.bodies == [b"abcdef"]


async def test_crumbs_of_a_cookie_are_joined(stack: Stack, user: Http2User) -> None:
    """The session is found whichever crumb it is in, so the missing header is what is refused."""
    head = [*HEAD, (":authority", "proxy"), ("cookie", "a=b"), ("cookie", "towline_session=s")]
    response = await user.until(user.send_head(head))
    assert (response.status, b"X-Towline-CSRF" in response.content) == (401, True)


async def test_the_application_answers_too(stack: Stack, user: Http2User) -> None:
    """Content larger than the window passes, and connections to Python are used again."""
    for size in (10, 1_000_000):
        head = [(":method", "POST"), (":scheme", "https"), (":authority", "p"), (":path", "/x")]
        stream = user.send_head(head, ended=False)
        left = size
        while left:
            room = min(user.h2.local_flow_control_window(stream), 16_384, left)
            user.h2.send_data(stream, b"x" * room)
            left -= room
            user.flush()
            await asyncio.sleep(0 if room else 0.001)
        user.h2.end_stream(stream)
        user.flush()
        assert (await user.until(stream)).content == b"POST /x %d" % size
    assert len(stack.proxy.gateway.connections) == 1


async def test_a_slow_reader_stops_only_its_own_stream(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """What it leaves unread stays at the API server: nothing between holds more than windows."""
    sent = 0

    async def pour(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        with contextlib.suppress(ConnectionError):
            while True:
                writer.write(bytes(1 << 16))
                await writer.drain()
                sent += 1 << 16

    user.h2.increment_flow_control_window(1 << 30)
    user.flush()
    await learn(stack, user)
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        recorder.script, sent, user.reads = pour, 0, False
        slow = user.ask(path)
        response = await user.until(slow, over=False)
        before = -1
        while before != (before := sent):
            await asyncio.sleep(0.3)
        assert sent < 12_000_000
        assert len(response.content) == 65_535
        recorder.script, user.reads = None, True
        assert (await user.get("/api/v1/services")).content == b"ok"
        user.h2.reset_stream(slow)
        user.flush()


async def test_content_that_nobody_reads_stops_only_its_own_stream(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """An API server that does not read an upload: windows bound what is kept for it."""

    async def ignore(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()  # ty: ignore[missing-attribute]
        await asyncio.sleep(30)

    recorder.script = ignore
    streams = [user.ask("/api/v1/pods", method="POST", ended=False) for _ in range(3)]
    await eventually(lambda: len(recorder.heads) == 3)
    sent, waited = 0, 0
    while waited < 30:
        rooms = {stream: user.h2.local_flow_control_window(stream) for stream in streams}
        for stream, room in rooms.items():
            if room:
                user.h2.send_data(stream, bytes(min(room, 16_384)))
                sent += min(room, 16_384)
        user.flush()
        waited = 0 if any(rooms.values()) else waited + 1
        await asyncio.sleep(0.01)
    assert sent < 30_000_000
    recorder.script = None
    stream = user.ask("/api/v1/nodes", method="POST", ended=False)
    user.h2.send_data(stream, b"small", end_stream=True)
    user.flush()
    assert (await user.until(stream)).content == b"ok"


async def test_kubectl_speaks_http2(through: Kubectl, stack: Stack) -> None:
    """Also for a watch; see the tests of kubectl for all its commands."""
    verbose = {"GODEBUG": "http2debug=1"}
    shown = await through("get", "namespaces", "-o", "name", env=verbose)
    assert (shown.code, b"namespace/default" in shown.out) == (0, True), shown.err
    assert "http2: Transport" in shown.err
    watch = await through.start("get", "namespaces", "-w", "-o", "name", env=verbose)
    assert watch.stdout is not None
    assert await watch.stdout.readline()
    streams = stack.proxy.local.open_streams
    await eventually(
        lambda: any(stream.bytes_out for stream in streams(ALL_STREAMS) if "watch" in stream.what)
    )
    assert stack.proxy.gateway.revoke(user="u1") >= 1
    async with asyncio.timeout(10):
        _, errors = await watch.communicate()
    assert b"INTERNAL_ERROR" in errors


async def test_curl_speaks_http2(stack: Stack, recorder: RecordingUpstream, tmp_path: Path) -> None:
    """A client by other people than kubectl's and those of the library of these tests."""
    url = f"https://127.0.0.1:{stack.port}/k8s/clusters/dev/api/v1/pods"
    sent = tmp_path / "content"
    sent.write_bytes(bytes(300_000))
    program = await asyncio.create_subprocess_exec(
        "curl", "--silent", "--show-error", "--http2", "--cacert", stack.authority.ca,
        "--header", "Authorization: Bearer ann-token", "--data-binary", f"@{sent}",
        "--write-out", " %{http_version} %{http_code}", url,
        stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    output, _ = await program.communicate()
    assert output == b"ok 2 200"
    assert recorder.bodies == [sent.read_bytes()]


# How a stream ends


async def test_revocation_ends_the_streams_of_its_user(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """A watch and a read that is served natively, not those of others on the same connection."""
    await learn(stack, user)
    recorder.script = hang
    known = user.ask()
    recorder_sees = await user.until(known, over=False)
    recorder.script = watching
    streams = [user.ask(WATCH), user.ask(WATCH, token="root-token")]
    mine, other = [await user.until(stream, over=False) for stream in streams]
    assert stack.proxy.gateway.revoke(user="u1") == 2
    assert (await user.until(known)).code == recorder_sees.code == INTERNAL
    assert (await user.until(streams[0])).code == mine.code == INTERNAL
    assert not other.over
    reasons = [row.reason for row in stack.installation.closed_rows]
    await eventually(lambda: stack.installation.closed_rows[-1].reason is EndReason.REVOKED)
    assert reasons.count(EndReason.REVOKED) <= 2


async def test_a_user_who_resets_a_stream_ends_the_request_at_the_api_server(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Whoever serves it; the connection goes on."""
    await learn(stack, user)
    left = asyncio.Event()

    async def until_left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await hang(reader, writer)
        left.set()

    recorder.script = until_left
    rows = stack.installation.closed_rows
    for path in ("/api/v1/pods", WATCH):
        stream = user.ask(path)
        await user.until(stream, over=False)
        user.h2.reset_stream(stream)
        user.flush()
        async with asyncio.timeout(5):
            await left.wait()
        left.clear()
        await eventually(lambda: rows[-1].reason is EndReason.USER_LEFT)
        rows.clear()
    recorder.script = None
    assert (await user.get()).status == 200


async def test_a_response_that_is_cut_off_ends_with_a_reset(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Never as if it were complete."""
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\ncut"
    recorder.close_after = True
    for path in ("/api/v1/pods", "/api/v1/pods", "/api/v1/pods"):
        response = await user.get(path)
        assert (response.ended, response.code) == (False, INTERNAL)


@pytest.mark.parametrize(
    "settings", [ProxySettings(data_plane=DataPlane.NATIVE, timeouts=Timeouts(answer=1.0))]
)
async def test_an_api_server_that_does_not_answer_is_reported(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    await learn(stack, user)

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    recorder.script = silent
    for path in ("/api/v1/pods", "/api/v1/nodes"):
        response = await user.get(path)
        assert (response.status, b"did not answer" in response.content) == (504, True)


@pytest.mark.parametrize(
    "settings", [ProxySettings(data_plane=DataPlane.NATIVE, timeouts=Timeouts(answer=1.0))]
)
async def test_content_that_stops_is_given_up(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """One connection has hundreds of streams, and each needs one to Python."""
    head = [(":method", "POST"), (":scheme", "https"), (":authority", "p"), (":path", "/x")]
    streams = [user.send_head(head, ended=False) for _ in range(20)]
    for stream in streams:
        assert (await user.until(stream)).status == 408
    await eventually(lambda: not stack.proxy.gateway.connections)


async def test_a_drain_lets_streams_end_and_takes_no_new_ones(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    go_on = asyncio.Event()

    async def slow(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go_on.wait()
        writer.write(OK)

    recorder.script = slow
    stream = user.ask()
    await eventually(lambda: recorder.heads)
    assert (await user.get("/api/v1/nodes", token="unknown")).status == 401
    assert len(stack.proxy.gateway.connections) == 2
    assert stack.proxy.front is not None
    stack.proxy.front.drain()
    await eventually(lambda: user.goaway is not None)
    # Python waits for its connections to end.
    await eventually(lambda: len(stack.proxy.gateway.connections) == 1)
    go_on.set()
    assert (await user.until(stream)).content == b"ok"
    assert await user.end() == h2.errors.ErrorCodes.NO_ERROR


@pytest.mark.parametrize(
    "settings", [ProxySettings(data_plane=DataPlane.NATIVE, timeouts=Timeouts(idle=1.0))]
)
async def test_a_connection_without_streams_is_closed(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """Not one with a stream on which nothing happens."""
    recorder.script = watching
    stream = user.ask(WATCH)
    response = await user.until(stream, over=False)
    async with http2_user(stack) as idle:
        assert await idle.end() == h2.errors.ErrorCodes.NO_ERROR
    assert user.goaway is None and not response.over


# Limits, and connections that are hostile


@pytest.mark.parametrize(
    "settings",
    [
        ProxySettings(
            data_plane=DataPlane.NATIVE, streams=StreamLimits(per_connection=3, connections=2)
        )
    ],
)
async def test_streams_and_connections_are_bounded(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    await user.get()
    assert user.h2.remote_settings.max_concurrent_streams == 3
    recorder.script = watching
    # The library would obey.
    user.h2.remote_settings.max_concurrent_streams = 100
    user.h2.remote_settings.acknowledge()
    streams = [user.ask(WATCH) for _ in range(4)]
    refused = await user.until(streams[-1])
    assert refused.code == h2.errors.ErrorCodes.REFUSED_STREAM
    async with http2_user(stack), http2_user(stack) as third:
        response = await third.get()
        assert (response.status, b"too many connections" in response.content) == (503, True)


@pytest.mark.parametrize(
    "settings",
    [ProxySettings(data_plane=DataPlane.NATIVE, streams=StreamLimits(per_user_and_cluster=2))],
)
async def test_streams_count_as_requests_of_their_user(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    recorder.script = watching
    for _ in range(2):
        await user.until(user.ask(WATCH), over=False)
    assert (await user.get("/api/v1/nodes")).status == 429


@pytest.mark.parametrize(
    "fields",
    [
        [*HEAD, (":authority", "a"), ("x", "a\r\nImpersonate-User: root")],
        [*HEAD, (":authority", "a"), ("x", "a\nb")],
        [*HEAD, (":authority", "a"), ("x", "a\0b")],
        [*HEAD, (":authority", "a"), ("x\r\ny", "a")],
        [*HEAD, (":authority", "a"), ("X-Upper", "a")],
        [*HEAD, (":authority", "a"), ("host", "b")],
        [*HEAD, (":authority", "a@b")],
        [*HEAD, (":authority", "a"), ("transfer-encoding", "chunked")],
        [*HEAD, (":authority", "a"), ("connection", "upgrade"), ("upgrade", "websocket")],
        [*HEAD, (":authority", "a"), ("content-length", "1"), ("content-length", "2")],
        [*HEAD, (":authority", "a"), ("content-length", "5")],
        [*HEAD[:2], (":authority", "a"), (":path", "/k8s/clusters/dev/api HTTP/1.1\r\nX: y")],
        [*HEAD[:2], (":authority", "a"), (":path", "/k8s/clusters/dev/api HTTP/1.0")],
        [*HEAD[:2], (":authority", "a"), (":path", "k8s/clusters/dev/api")],
        [(":method", "GET / HTTP/1.1\r\nX: y"), *HEAD[1:], (":authority", "a")],
        [(":method", "CONNECT"), (":authority", "127.0.0.1:80")],
        [(":method", "CONNECT"), (":protocol", "websocket"), *HEAD[1:], (":authority", "a")],
    ],
)
async def test_smuggled_and_malformed_heads_reach_nobody(
    stack: Stack, recorder: RecordingUpstream, user: Http2User, fields: list[tuple[str, str]]
) -> None:
    """The stream is reset, or the connection with an error; another user has no harm."""
    stream = user.send_head([*fields, ("authorization", "Bearer ann-token")])
    with contextlib.suppress(AssertionError):
        assert (await user.until(stream)).code == PROTOCOL
    if user.closed:
        assert user.goaway == PROTOCOL
    async with http2_user(stack) as other:
        assert (await other.get()).status == 200
    assert len(recorder.heads) == 1


@pytest.mark.parametrize(
    "settings", [ProxySettings(data_plane=DataPlane.NATIVE, head=HeadLimits(size=8_000))]
)
async def test_long_heads_are_refused(
    stack: Stack, recorder: RecordingUpstream, user: Http2User
) -> None:
    """By Python as in HTTP/1.1, or before they are kept."""
    await user.get()
    assert user.h2.remote_settings.max_header_list_size == 8_000 + 32 * 128
    for size in (9_000, 20_000):
        response = await user.until(user.ask("/api", ("x", "a" * size)))
        assert response.status == 431
    assert len(recorder.heads) == 1


@pytest.mark.parametrize("begun", [False, True])
async def test_rapid_resets_end_the_connection(
    stack: Stack, recorder: RecordingUpstream, user: Http2User, begun: bool
) -> None:
    """CVE-2023-44487: requests that are taken back at once, or when their work has begun."""
    recorder.script = watching
    asked = 0
    with contextlib.suppress(AssertionError):
        while not user.closed and asked < 2_000:
            stream = user.ask(WATCH)
            asked += 1
            if begun:
                await user.until(stream, over=False)
            user.h2.reset_stream(stream)
            user.flush()
            await asyncio.sleep(0)
    # Writing on after the end may lose the frame that names the reason.
    assert await user.end() in {CALM, None}
    assert (asked < 1_000, len(recorder.heads) < 1_000) == (True, True)
    recorder.script = None
    async with http2_user(stack) as other:
        assert (await other.get()).status == 200


def frame(kind: int, flags: int, stream: int, payload: bytes) -> bytes:
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


def continuations() -> bytes:
    """A head that does not end."""
    field = b"\x00\x01a\x7f\x81\x7e" + b"b" * 382
    return frame(HEADERS, 0, 1, field) + frame(CONTINUATION, 0, 1, field * 40) * 2_000


def header_bomb() -> bytes:
    """One large field, and thousands of references to it of one byte."""
    large = b"\x40\x01a\x7f\x81\x1e" + b"b" * 4_000
    return frame(HEADERS, 0, 1, large + b"\xbe" * 10_000) + frame(
        CONTINUATION, 4, 1, b"\xbe" * 16_000
    )


def many(content: bytes) -> Callable[[], bytes]:
    return lambda: content * 200_000


@pytest.mark.parametrize(
    "flood",
    [
        continuations,
        header_bomb,
        many(frame(8, 0, 0, b"\0\0\0\0")),
        many(frame(0, 0, 1, b"")),
        many(frame(8, 0, 0, b"\x7f\xff\xff\xff")),
    ],
    ids=["continuations", "header bomb", "no window", "data without a stream", "overflow"],
)
async def test_floods_end_the_connection(
    stack: Stack, recorder: RecordingUpstream, user: Http2User, flood: Callable[[], bytes]
) -> None:
    user.writer.write(flood())
    await user.end()
    async with http2_user(stack) as other:
        assert (await other.get()).status == 200


async def test_pings_that_nobody_reads_fill_no_memory(
    stack: Stack, recorder: RecordingUpstream
) -> None:
    """The proxy stops to read before it keeps more answers than a socket holds."""
    sock = socket.create_connection(("127.0.0.1", stack.port))
    trusting = stack.authority.client_context()
    trusting.set_alpn_protocols(["h2"])
    with trusting.wrap_socket(sock, server_hostname="127.0.0.1") as secured:
        secured.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b""))
        secured.settimeout(1)
        sent = 0
        with contextlib.suppress(TimeoutError):
            while sent < 200_000_000:
                await asyncio.to_thread(secured.sendall, frame(6, 0, 0, bytes(8)) * 10_000)
                sent += 170_000
    assert 0 < sent < 100_000_000


# Where it is not offered


@pytest.mark.parametrize(
    "settings",
    [
        ProxySettings(data_plane=DataPlane.PORTABLE),
        ProxySettings(data_plane=DataPlane.NATIVE, http2=False),
    ],
)
async def test_only_http1_is_offered_without_it(stack: Stack) -> None:
    """On the portable data plane, and where operators switch it off."""
    trusting = stack.authority.client_context()
    trusting.set_alpn_protocols(["h2", "http/1.1"])
    _, writer = await asyncio.open_connection("127.0.0.1", stack.port, ssl=trusting)
    assert writer.get_extra_info("ssl_object").selected_alpn_protocol() in {"http/1.1", None}
    writer.close()


async def test_clients_choose_the_version(stack: Stack, recorder: RecordingUpstream) -> None:
    """Upgrades need HTTP/1.1, and their clients offer nothing else."""
    for offered, chosen in [(["http/1.1"], "http/1.1"), (["http/1.1", "h2"], "h2"), ([], None)]:
        trusting = stack.authority.client_context()
        if offered:
            trusting.set_alpn_protocols(offered)
        _, writer = await asyncio.open_connection("127.0.0.1", stack.port, ssl=trusting)
        assert writer.get_extra_info("ssl_object").selected_alpn_protocol() == chosen
        writer.close()
