"""What reaches the API server, byte for byte, and what never does."""

import asyncio
import re

import pytest

from core.errors import Unavailable
from tests.integration.proxy.recording import OK, RecordingUpstream
from tests.integration.proxy.stack import Stack, eventually
from tests.integration.proxy.user import User, request

UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket")
SECRET = re.compile(rb"ann-token")


async def test_head_is_rebuilt(stack: Stack, recorder: RecordingUpstream, user: User) -> None:
    """Only what is known to be harmless passes; identity and token are the agent's."""
    dropped = [
        b"aUTHORIZATION-info: kept",
        b"Cookie: a=b",
        b"X-Remote-User: root",
        b"X-Remote-Extra-Scopes: all",
        b"X-Forwarded-For: 1.2.3.4",
        b"Forwarded: for=1.2.3.4",
        b"Via: 1.1 x",
        b"Proxy-Authorization: Basic x",
        b"TE: trailers",
        b"Keep-Alive: timeout=5",
        b"X-Towline-User: root",
        b"Audit-ID: mine",
        b"Connection: keep-alive",
        b"Accept: application/json",
        b"accept:   text/plain ",
    ]
    status, _, body = await user.ask(request(b"GET", b"/api/v1/pods?limit=1", *dropped))
    assert (status, body) == (200, b"ok")
    await eventually(lambda: stack.installation.closed_rows)
    row = stack.installation.closed_rows[0]
    assert recorder.heads == [
        b"GET /api/v1/pods?limit=1 HTTP/1.1\r\n"
        b"aUTHORIZATION-info: kept\r\n"
        b"Accept: application/json\r\n"
        b"accept: text/plain\r\n"
        b"Audit-ID: " + row.id.encode() + b"\r\n"
        b"Impersonate-User: ann\r\n"
        b"Impersonate-Group: devs\r\n"
        b"Impersonate-Extra-towline%2Ftoken: t\r\n"
        b"Host: 127.0.0.1:" + str(recorder.port).encode() + b"\r\n"
        b"Authorization: Bearer service-account-token\r\n\r\n"
    ]


REFUSED = {
    "impersonation": (403, request(b"GET", b"/api", b"Impersonate-User: root")),
    "impersonation in odd case": (403, request(b"GET", b"/api", b"iMPERSONATE-gROUP: x")),
    "connection names a field": (400, request(b"GET", b"/api", b"Connection: Impersonate-User")),
    "length and chunked": (
        400,
        request(b"POST", b"/api", b"Content-Length: 5", b"Transfer-Encoding: chunked"),
    ),
    "two lengths": (400, request(b"POST", b"/api", b"Content-Length: 5", b"Content-Length: 5")),
    "listed length": (400, request(b"POST", b"/api", b"Content-Length: 5, 5")),
    "signed length": (400, request(b"POST", b"/api", b"Content-Length: +5")),
    "odd encoding": (400, request(b"POST", b"/api", b"Transfer-Encoding: gzip, chunked")),
    "encoding in HTTP/1.0": (
        400,
        request(b"POST", b"/api", b"Transfer-Encoding: chunked").replace(b"HTTP/1.1", b"HTTP/1.0"),
    ),
    "two hosts": (400, request(b"GET", b"/api", b"Host: other")),
    "no host": (400, request().replace(b"Host: proxy\r\n", b"")),
    "folded field": (400, request(b"GET", b"/api", b"X: a\r\n b")),
    "bare line feed": (400, request(b"GET", b"/api", b"X: a\nImpersonate-User: root")),
    "space before colon": (400, request(b"GET", b"/api", b"Host : x")),
    "upgrade without connection": (400, request(b"GET", b"/api", b"Upgrade: websocket")),
    "connection without upgrade": (400, request(b"GET", b"/api", b"Connection: upgrade")),
    "upgrade to h2c": (400, request(b"GET", b"/api", b"Connection: upgrade", b"Upgrade: h2c")),
    "upgrade with a body": (400, request(b"POST", b"/api", *UPGRADE, b"Content-Length: 5")),
    "odd expectation": (417, request(b"POST", b"/api", b"Expect: a-miracle")),
    "method of WebDAV": (405, request(b"PROPFIND", b"/api")),
    "unknown method": (405, request(b"BREW", b"/api")),
    "method in lower case": (405, request(b"get", b"/api")),
    "no method": (400, request(b"G(T", b"/api")),
    "two credentials": (400, request(b"GET", b"/api", b"Authorization: Bearer root-token")),
    "basic credential": (401, request(b"GET", b"/api", b"Authorization: Basic x", token=b"")),
    "no credential": (401, request(token=b"")),
    "unknown credential": (401, request(token=b"nobody")),
    "long head": (431, request(b"GET", b"/api", b"X: " + b"a" * (70 << 10))),
    "long name of a field": (431, request(b"GET", b"/api", b"a" * (70 << 10) + b": X")),
    "many fields": (431, request(b"GET", b"/api", *[b"X: a"] * 200)),
    "long target": (431, request(b"GET", b"/api/" + b"a" * (70 << 10))),
    "dot segments": (400, request(b"GET", b"/api/../api/v1/secrets")),
    "encoded dots": (400, request(b"GET", b"/api/%2e%2E/v1/secrets")),
    "encoded slash": (400, request(b"GET", b"/api/v1/namespaces/default%2fpods")),
    "empty segment": (400, request(b"GET", b"/api//v1/pods")),
    "two slashes first": (400, request(b"GET", b"//api/v1/pods")),
    "backslash": (400, request(b"GET", b"/api\\v1/pods")),
    "fragment": (400, request(b"GET", b"/api#x")),
    "no cluster": (404, request().replace(b"/clusters/dev", b"/clusters")),
    "odd handle": (404, request().replace(b"/clusters/dev", b"/clusters/Dev_")),
    "encoded handle": (404, request().replace(b"/clusters/dev", b"/clusters/de%76")),
    "unknown cluster": (404, request().replace(b"/clusters/dev", b"/clusters/other")),
}


@pytest.mark.parametrize("name", REFUSED)
async def test_refused_and_never_sent(recorder: RecordingUpstream, user: User, name: str) -> None:
    """Each request that could be read in two ways is refused, with nothing sent on."""
    status, data = REFUSED[name]
    got, head, _ = await user.ask(data)
    assert got == status
    assert not SECRET.search(head)
    assert recorder.heads == []


async def test_absolute_target_is_refused(recorder: RecordingUpstream, user: User) -> None:
    """A target that is no path never leads to a cluster."""
    await user.ask(request().replace(b"GET /k8s", b"GET http://proxy/k8s"))
    assert recorder.heads == []


async def test_impersonation_with_the_right_to_it(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """`--as` replaces the whole identity; the row keeps both users."""
    fields = (b"Impersonate-User: bob", b"impersonate-group: a", b"Impersonate-Group: b")
    await user.ask(request(b"GET", b"/api", *fields, token=b"root-token"))
    (head,) = recorder.heads
    assert b"Impersonate-User: bob\r\nImpersonate-Group: a\r\nImpersonate-Group: b\r\n" in head
    assert head.lower().count(b"impersonate-") == 3
    await eventually(lambda: stack.installation.closed_rows)
    row = stack.installation.closed_rows[0]
    assert row.identity is not None
    assert (row.identity.name, row.acting_as) == ("root", "bob")


async def test_system_masters_is_refused_by_the_agent(
    recorder: RecordingUpstream, user: User
) -> None:
    """Even when the edge would send it."""
    fields = (b"Impersonate-User: bob", b"Impersonate-Group: system:masters")
    status, _, body = await user.ask(request(b"GET", b"/api", *fields, token=b"root-token"))
    assert status == 403
    assert b"system:masters" in body
    assert recorder.heads == []


async def test_credential_in_a_websocket_subprotocol(
    recorder: RecordingUpstream, user: User
) -> None:
    """It authenticates, and does not travel on."""
    field = (
        b"Sec-WebSocket-Protocol: base64url.bearer.authorization.k8s.io.YW5uLXRva2Vu, v5.channel"
    )
    await user.ask(request(b"GET", b"/api/v1/pods", field, token=b""))
    (head,) = recorder.heads
    assert b"Sec-WebSocket-Protocol: v5.channel\r\n" in head
    assert b"YW5u" not in head


@pytest.mark.parametrize("step", [1, 7])
async def test_any_split_gives_the_same(recorder: RecordingUpstream, user: User, step: int) -> None:
    """A request that comes in pieces is the request that comes whole."""
    body = b"5;ext=1\r\nhello\r\n3\r\nyou\r\n0\r\nTrailer: x\r\n\r\n"
    data = request(b"POST", b"/api/v1/pods", b"Transfer-Encoding: chunked", body=body)
    for start in range(0, len(data), step):
        user.writer.write(data[start : start + step])
        await asyncio.sleep(0)
    assert (await user.answer())[0] == 200
    (sent,) = recorder.bodies
    assert unchunked(sent) == b"helloyou"
    assert b"ext" not in sent and b"Trailer" not in sent
    assert recorder.heads[0].startswith(b"POST /api/v1/pods HTTP/1.1\r\n")


async def test_pipelined_requests_are_answered_in_order(
    recorder: RecordingUpstream, user: User
) -> None:
    """Several in one segment, the application's among them, run one by one."""
    post = request(b"POST", b"/api/v1/pods", b"Content-Length: 3", body=b"abc")
    app = b"POST /gql?x HTTP/1.1\r\nHost: proxy\r\nContent-Length: 4\r\n\r\nbody"
    user.writer.write(post + request(b"GET", b"/one") + app + request(b"GET", b"/two") + app)
    answers = [await user.answer() for _ in range(5)]
    assert [body for _, _, body in answers] == [b"ok", b"ok", b"POST /gql 4", b"ok", b"POST /gql 4"]
    assert [head.split(b" ")[1] for head in recorder.heads] == [b"/api/v1/pods", b"/one", b"/two"]
    assert recorder.connections == 1


async def test_prefix_in_pieces_reaches_the_proxy(recorder: RecordingUpstream, user: User) -> None:
    """The first bytes alone do not decide who serves a request."""
    for piece in (b"\r\nGE", b"T /k8", b"s/clus", b"ters/dev/api HTTP/1.1\r\nHost: x\r\n"):
        user.writer.write(piece)
        await asyncio.sleep(0.01)
    status, _, _ = await user.ask(b"Authorization: Bearer ann-token\r\n\r\n")
    assert status == 200
    status, _, body = await user.ask(b"GET /k8 HTTP/1.1\r\nHost: x\r\n\r\n")
    assert (status, body) == (200, b"GET /k8 0")


async def test_refused_upgrade_smuggles_nothing(recorder: RecordingUpstream, user: User) -> None:
    """Bytes behind an upgrade that the API server refuses never reach it."""
    recorder.answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n"
    smuggled = b"GET /api/v1/secrets HTTP/1.1\r\nHost: x\r\n\r\n"
    status, _, _ = await user.ask(request(b"GET", b"/api/v1/x", *UPGRADE, body=smuggled))
    assert status == 403
    assert await user.rest() == b""
    await asyncio.sleep(0.1)
    assert len(recorder.heads) == 1


async def test_upgrade_is_raw_both_ways_after_101(recorder: RecordingUpstream, user: User) -> None:
    """Early bytes of the user arrive after the 101, and either side may end."""
    received = bytearray()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\nhi")
        received.extend(await reader.readexactly(9))
        writer.write(b"bye")

    recorder.script = script
    user.writer.write(request(b"GET", b"/api/v1/x", *UPGRADE, body=b"early"))
    assert (await user.answer())[0] == 101
    user.writer.write(b"late")
    assert await user.rest() == b"hibye"
    assert received == b"earlylate"
    assert b"Connection: Upgrade\r\nUpgrade: websocket\r\n" in recorder.heads[0]


WRONG = {
    "extra bytes": OK + b"x",
    "extra empty line": OK + b"\r\n",
    "a second answer": OK + OK,
    "length and chunked": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n"
    b"Transfer-Encoding: chunked\r\n\r\nok",
    "unasked upgrade": b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
    "no HTTP at all": b"SSH-2.0-OpenSSH\r\n\r\n",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok",
    "bad chunk": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
}


@pytest.mark.parametrize("name", WRONG)
async def test_wrong_answers_reach_nobody(
    recorder: RecordingUpstream, user: User, name: str
) -> None:
    """A broken answer ends its own request, and the connection it came over is not used again."""
    recorder.answer = WRONG[name]
    with pytest.raises((ConnectionError, asyncio.IncompleteReadError, BadGateway)):
        status, _, _ = await user.ask(request())
        if status == 502:
            raise BadGateway
        await user.ask(request())
    recorder.answer = OK
    reader, writer = await asyncio.open_connection(*user.writer.get_extra_info("peername"))
    assert (await User(reader, writer).ask(request()))[2] == b"ok"
    writer.close()
    # A read whose data link brought no response was sent once more.
    assert recorder.connections == len(recorder.heads)


class BadGateway(Exception):
    """The proxy said 502."""


ANSWERS = {
    "chunked with trailers": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: A\r\n\r\n"
    b"4;x=y\r\ndata\r\n0\r\nA: b\r\n\r\n",
    "no content": b"HTTP/1.1 204 No Content\r\n\r\n",
    "not modified": b'HTTP/1.1 304 Not Modified\r\nETag: "a"\r\nContent-Length: 5\r\n\r\n',
    "early hints": b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
    "gzip": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\n\x1f\x8b\x00",
}


@pytest.mark.parametrize("name", ANSWERS)
async def test_answers_pass_untouched(
    stack: Stack, recorder: RecordingUpstream, user: User, name: str
) -> None:
    """Every kind of answer comes as it was sent, and the connection goes on."""
    recorder.answer = ANSWERS[name]
    user.writer.write(request())
    async with asyncio.timeout(5):
        assert await user.reader.readexactly(len(ANSWERS[name])) == ANSWERS[name]
    recorder.answer = OK
    assert (await user.ask(request()))[2] == b"ok"
    assert recorder.connections <= stack.pools


async def test_head_request_has_no_body(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The length of an answer to HEAD announces nothing."""
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n"
    for _ in range(3):
        status, _, _ = await user.ask(request(b"HEAD"), head_request=True)
        assert status == 200
    assert recorder.connections <= stack.pools


async def test_close_delimited_answer(recorder: RecordingUpstream, user: User) -> None:
    """It ends when the API server closes, cleanly, and so does the user's connection."""
    recorder.answer, recorder.close_after = b"HTTP/1.1 200 OK\r\n\r\nall of it", True
    user.writer.write(request())
    assert await user.rest() == recorder.answer


async def test_continue_is_asked_of_the_api_server(recorder: RecordingUpstream, user: User) -> None:
    """The body is sent after its 100, which the user sees."""

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        recorder.bodies.append(await reader.readexactly(3))
        writer.write(OK)

    recorder.script = script
    fields = (b"Content-Length: 3", b"Expect: 100-continue")
    status, _, _ = await user.ask(request(b"POST", b"/api/v1/pods", *fields))
    assert status == 100
    assert (await user.ask(b"abc"))[0] == 200
    assert recorder.bodies == [b"abc"]


async def test_refusal_with_a_body_keeps_the_connection(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The body of a refused request is read and dropped, so that the client gets its answer."""
    stack.installation.forbidden.add("ann")
    size = 3_000_000
    post = request(b"POST", b"/api/v1/pods", b"Content-Length: %d" % size, body=b"x" * size)
    assert (await user.ask(post))[0] == 403
    stack.installation.forbidden.clear()
    assert (await user.ask(request()))[2] == b"ok"
    assert len(recorder.heads) == 1


async def test_no_request_without_its_row(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """A write whose audit row cannot be kept is not sent."""
    stack.installation.audit_fails = Unavailable("the audit log cannot be written")
    status, _, body = await user.ask(request(b"DELETE", b"/api/v1/namespaces/a/pods/b"))
    assert status == 503
    assert b"audit log" in body
    assert (await user.ask(request()))[0] == 200
    assert len(recorder.heads) == 1


async def test_application_and_websocket_on_the_same_port(
    recorder: RecordingUpstream, user: User
) -> None:
    """The rest of the port is the application's, upgrades included."""
    assert (await user.ask(request()))[2] == b"ok"
    chunked = (
        b"POST /gql HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n"
    )
    assert (await user.ask(chunked))[2] == b"POST /gql 3"
    assert (await user.ask(request()))[2] == b"ok"
    upgrade = (
        b"GET /gql HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==\r\n\r\n"
    )
    assert (await user.ask(upgrade))[0] == 101
    user.writer.write(b"\x81\x85\x00\x00\x00\x00hello")
    async with asyncio.timeout(5):
        assert await user.reader.readexactly(7) == b"\x81\x05hello"
    assert len(recorder.heads) == 2


async def test_rows_are_kept_for_all(stack: Stack, recorder: RecordingUpstream, user: User) -> None:
    """Reads, writes and refusals each leave one row with status and bytes."""
    post = request(b"POST", b"/api/v1/namespaces/a/pods", b"Content-Length: 3", body=b"abc")
    rows = stack.installation.closed_rows
    for count, asked in enumerate((request(), post, request(token=b"nobody")), 1):
        await user.ask(asked)
        await eventually(lambda count=count: len(rows) == count)
    assert [(row.status, row.bytes_in) for row in rows] == [(200, 0), (200, 3), (401, 0)]
    assert [str(row.attributes) for row in rows] == ["list pods", "create pods a", "list pods"]
    assert len(stack.installation.opened_rows) == 1
    assert rows[0].bytes_out == len(OK)


def unchunked(data: bytes) -> bytes:
    """The payload of a chunked body without extensions."""
    payload = b""
    while data:
        size, _, data = data.partition(b"\r\n")
        length = int(size, 16)
        payload, data = payload + data[:length], data[length + 2 :]
    return payload
