"""Requests that run for long, over both data planes: the native hub moves the bytes of watches and
upgrades to their end, and everything else is as on the portable one.
"""

import asyncio
from socket import SO_LINGER, SOL_SOCKET
from struct import pack

import pytest

from core.open_streams import ALL_STREAMS, OpenStream
from proxy.domain.access import RecordingPolicy
from proxy.domain.audit import EndReason
from proxy.settings import DataPlane
from tests.fakes.kube_proxy import CLUSTER
from tests.integration.proxy.http2_user import http2_user
from tests.integration.proxy.recording import RecordingUpstream
from tests.integration.proxy.scripts import ENDLESS, EVENT
from tests.integration.proxy.stack import Stack, connection, eventually
from tests.integration.proxy.user import User, request
from tests.planes import chosen_plane

PATH = "/api/v1/pods?watch=1"
WATCH = request(path=PATH.encode())
CHUNK = b"%x\r\n%s\r\n" % (len(EVENT), EVENT)
END = b"0\r\n\r\n"
BEGUN = len(ENDLESS + CHUNK)


class Events:
    """What the API server sends on watches, each piece on one of them. The last one closes the
    connection.
    """

    def __init__(self) -> None:
        self.more: asyncio.Queue[bytes] = asyncio.Queue()
        self.left = asyncio.Event()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ENDLESS + CHUNK)
        leaving, piece = asyncio.ensure_future(reader.read()), b""
        while not (leaving.done() or piece.endswith(END)):
            sending = asyncio.ensure_future(self.more.get())
            await asyncio.wait([leaving, sending], return_when=asyncio.FIRST_COMPLETED)
            if sending.done():
                piece = sending.result()
                writer.write(piece)
            sending.cancel()
        leaving.cancel()
        self.left.set()


@pytest.fixture
def events(recorder: RecordingUpstream) -> Events:
    recorder.script = events = Events()
    return events


def moved(stack: Stack) -> int:
    """Number of requests whose responses the native hub has begun after they were handed over."""
    return 0 if stack.proxy.front is None else stack.proxy.front.splices.served


def is_native() -> bool:
    return chosen_plane(DataPlane.PORTABLE) is DataPlane.NATIVE


async def watch(stack: Stack, user: User) -> OpenStream:
    """Opens a watch, which the native hub serves if there is one; returns its row."""
    before = moved(stack)
    user.writer.write(WATCH)
    await user.reader.readuntil(CHUNK)
    await eventually(lambda: moved(stack) == before + is_native())
    return stack.proxy.local.open_streams(ALL_STREAMS)[-1]


async def test_a_watch_is_listed_with_its_present_size(
    stack: Stack, events: Events, user: User
) -> None:
    listed = await watch(stack, user)
    assert (listed.user, listed.kind, listed.bytes_out) == ("ann", "watch", BEGUN)
    events.more.put_nowait(CHUNK)
    await user.reader.readuntil(CHUNK)
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert listed.bytes_out == BEGUN + len(CHUNK)
    (began,) = stack.installation.began_rows
    assert began.id == listed.id


async def test_a_watch_that_the_api_server_ends_leaves_the_connection_to_the_next_request(
    stack: Stack, recorder: RecordingUpstream, events: Events, user: User
) -> None:
    """Its row says how it ended, and who asked."""
    await watch(stack, user)
    events.more.put_nowait(CHUNK + END)
    await user.reader.readuntil(END)
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.status, row.reason, row.refused) == (200, EndReason.DONE, False)
    assert (row.bytes_in, row.bytes_out) == (0, BEGUN + len(CHUNK + END))
    assert row.source.startswith("127.0.0.1:") and row.seconds > 0
    assert stack.proxy.local.requests.empty
    recorder.script = None
    assert (await user.ask(request()))[::2] == (200, b"ok")


async def test_first_reads_share_one_connection_to_python(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Python is done with a read when its response begins, and serves the next one."""
    connections: list[object] = []
    gzip = b"Accept-Encoding: gzip"
    for limit in range(1, 5):
        read = request(b"GET", b"/api/v1/pods?limit=%d" % limit, gzip)
        assert (await user.ask(read))[0] == 200
        connections += stack.proxy.gateway.connections
    write = request(b"DELETE", b"/api/v1/namespaces/a/pods/b")
    assert (await user.ask(write))[0] == 200
    connections += stack.proxy.gateway.connections
    assert len(connections) == 5 and len(set(connections)) == 1
    assert moved(stack) == 4 * is_native()


async def test_a_first_read_is_moved_and_the_next_one_needs_no_python(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Each has its row, whichever way its bytes go."""
    recorder.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nlarge"
    gzip = b"Accept-Encoding: gzip"
    for limit in range(1, 4):
        read = request(b"GET", b"/api/v1/pods?limit=%d" % limit, gzip)
        assert (await user.ask(read))[::2] == (200, b"large")
        # The hub learns the decision once Python knows that the first read has ended.
        await eventually(lambda expected=limit: moved(stack) == expected * is_native())
        await eventually(lambda: connection(stack).is_idle)
        assert (await user.ask(read))[::2] == (200, b"large")
    if stack.proxy.front is not None:
        repeats = stack.proxy.front.repeats
        await eventually(lambda: repeats.served == 3)
    await eventually(lambda: len(stack.installation.closed_rows) == 6)
    rows = stack.installation.closed_rows
    assert {(row.status, row.reason, row.refused) for row in rows} == {(200, EndReason.DONE, False)}
    assert (len({row.id for row in rows}), len({row.bytes_out for row in rows})) == (6, 1)


@pytest.mark.parametrize("how", ["revoked", "ended", "forbidden"])
async def test_a_watch_that_is_ended_is_reset(
    stack: Stack, events: Events, user: User, how: str
) -> None:
    """Never as if the API server had ended it, who gets no more of it either."""
    listed = await watch(stack, user)
    if how == "revoked":
        assert stack.proxy.gateway.revoke(user="u1") == 1
    elif how == "ended":
        assert stack.proxy.local.end_stream(listed.id, "root")
    else:
        stack.installation.forbidden.add("ann")
        await stack.proxy.gateway.recheck("u1")
    with pytest.raises(ConnectionResetError):
        await user.rest()
    async with asyncio.timeout(5):
        await events.left.wait()
    await eventually(lambda: stack.installation.closed_rows)
    reason = EndReason.ENDED if how == "ended" else EndReason.REVOKED
    (row,) = stack.installation.closed_rows
    assert (row.reason, row.status, row.refused) == (reason, 200, False)
    assert not stack.proxy.local.open_streams(ALL_STREAMS)


@pytest.mark.parametrize("how", ["revoked", "left"])
async def test_a_watch_can_end_before_its_response(
    stack: Stack, recorder: RecordingUpstream, user: User, how: str
) -> None:
    """With a response if the proxy ends it, and also at the API server."""
    left = asyncio.Event()

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()
        left.set()

    recorder.script = silent
    user.writer.write(WATCH)
    await eventually(lambda: recorder.heads)
    rows = stack.installation.closed_rows
    if how == "revoked":
        assert stack.proxy.gateway.revoke(user="u1") == 1
        status, _, body = await user.answer()
        assert (status, b"access was revoked" in body) == (401, True)
        await eventually(lambda: rows)
        assert (rows[0].status, rows[0].reason) == (401, EndReason.REVOKED)
    else:
        user.writer.close()
        await eventually(lambda: rows)
        assert (rows[0].status, rows[0].reason) == (None, EndReason.USER_LEFT)
    assert rows[0].refused == (how == "revoked")
    async with asyncio.timeout(5):
        await left.wait()
    await eventually(lambda: stack.proxy.local.requests.empty)


async def test_a_user_who_leaves_ends_the_watch_at_the_api_server(
    stack: Stack, events: Events, user: User
) -> None:
    await watch(stack, user)
    user.writer.close()
    async with asyncio.timeout(5):
        await events.left.wait()
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.reason, row.status, row.bytes_out) == (EndReason.USER_LEFT, 200, BEGUN)
    assert stack.proxy.local.requests.empty


async def test_a_drain_ends_a_watch_between_events(
    stack: Stack, events: Events, user: User
) -> None:
    """Cleanly, and not within an event."""
    await watch(stack, user)
    events.more.put_nowait(b"8\r\n{ev")
    await user.reader.readuntil(b"{ev")
    draining = stack.tasks.spawn("drain", stack.proxy.drain())
    await asyncio.sleep(0.2)
    assert not draining.done()
    events.more.put_nowait(b"ent}\n\r\n")
    assert await user.rest() == b"ent}\n\r\n" + END
    await draining
    (row,) = stack.installation.closed_rows
    assert (row.reason, row.bytes_out) == (EndReason.DRAINED, BEGUN + 13)


async def test_a_watch_that_is_cut_off_is_reset(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    async def cut(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ENDLESS + CHUNK)

    recorder.script = cut
    user.writer.write(WATCH)
    with pytest.raises(ConnectionResetError):
        await user.rest()
    await eventually(lambda: stack.installation.closed_rows)
    assert stack.installation.closed_rows[0].reason is EndReason.UPSTREAM


async def test_a_watch_counts_in_the_limits_of_its_project_once(
    stack: Stack, events: Events, user: User
) -> None:
    stack.installation.stream_limits = (("shop", 1),)
    await watch(stack, user)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
    status, _, body = await User(reader, writer).ask(WATCH)
    assert (status, b"which may have 1" in body) == (429, True)
    writer.close()
    assert stack.proxy.local.requests.loads()["project shop"].total == 1
    user.writer.close()
    await eventually(lambda: stack.proxy.local.requests.empty)


async def test_a_request_behind_a_watch_waits_for_its_end(
    stack: Stack, recorder: RecordingUpstream, events: Events, user: User
) -> None:
    await watch(stack, user)
    user.writer.write(request())
    recorder.script = None
    events.more.put_nowait(END)
    await user.reader.readuntil(END)
    assert (await user.answer())[::2] == (200, b"ok")
    assert len(recorder.heads) == 2


async def test_a_watch_is_refused_with_the_status_of_the_api_server(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    recorder.answer = b"HTTP/1.1 410 Gone\r\nContent-Length: 4\r\n\r\ngone"
    assert (await user.ask(WATCH))[::2] == (410, b"gone")
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.status, row.reason, row.bytes_out) == (410, EndReason.DONE, len(recorder.answer))


async def test_a_watch_over_http2_is_moved_too(stack: Stack, events: Events, user: User) -> None:
    """And ends by itself, by its user, between events and by a revocation, as over HTTP/1.1."""
    if stack.proxy.front is None:
        return
    rows = stack.installation.closed_rows
    async with http2_user(stack) as h2:
        done, left, ended = [h2.ask(PATH) for _ in range(3)]
        for stream in (done, left, ended):
            assert (await h2.until(stream, over=False)).status == 200
        await eventually(lambda: moved(stack) == 3)
        await eventually(lambda: not stack.proxy.gateway.connections)
        sizes = {row.bytes_out for row in stack.proxy.local.open_streams(ALL_STREAMS)}
        assert sizes == {BEGUN}
        h2.h2.reset_stream(left)
        h2.flush()
        await eventually(lambda: [row.reason for row in rows] == [EndReason.USER_LEFT])
        await events.left.wait()
        events.more.put_nowait(END)
        await eventually(lambda: len(rows) == 2)
        assert rows[1].reason is EndReason.DONE
        assert stack.proxy.gateway.revoke(user="u1") == 1
        await eventually(lambda: len(rows) == 3)
        assert rows[2].reason is EndReason.REVOKED
        await eventually(lambda: h2.responses[done].over and h2.responses[ended].over)
        again = h2.ask(PATH)
        await h2.until(again, over=False)
        await eventually(lambda: moved(stack) == 4)
        await stack.proxy.drain()
        assert (await h2.until(again)).content == EVENT
        assert rows[3].reason is EndReason.DRAINED
    assert stack.proxy.local.requests.empty


async def test_python_serves_a_watch_whose_data_link_ends_before_its_response(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """With one row, and live afterwards."""
    front, link = stack.proxy.front, stack.proxy.tunnels.find(CLUSTER)
    assert link is not None

    async def silent(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.read()

    recorder.script = silent
    user.writer.write(WATCH)
    await eventually(lambda: recorder.heads)
    recorder.script = Events()
    if front is None:
        return
    front.links.forget(link)
    await user.reader.readuntil(CHUNK)
    assert (moved(stack), len(recorder.heads)) == (0, 2)
    assert recorder.heads[0] == recorder.heads[1]
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    user.writer.close()
    await eventually(lambda: stack.installation.closed_rows)
    assert [row.id for row in stack.installation.began_rows] == [listed.id]
    assert [row.id for row in stack.installation.closed_rows] == [listed.id]


# Upgrades

EXEC = request(
    b"POST", b"/api/v1/namespaces/a/pods/b/exec?command=sh",
    b"Connection: Upgrade", b"Upgrade: SPDY/3.1", b"Content-Length: 0",
)  # fmt: skip
SWITCHING = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
SIZE = 3_000_000


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Accepts an upgrade, and returns all bytes; the end of them too."""
    writer.write(SWITCHING)
    while data := await reader.read(1 << 16):
        writer.write(data)
        await writer.drain()
    writer.write(b"bye")


async def size_until_end(reader: asyncio.StreamReader) -> int:
    """Number of bytes up to the word `end`."""
    size, last = 0, b""
    while not last.endswith(b"end"):
        data = await reader.read(1 << 16)
        assert data
        size, last = size + len(data), (last + data)[-3:]
    return size


async def upgrade(stack: Stack, user: User) -> OpenStream:
    """Opens a session, which the native hub serves if there is one; returns its row."""
    before = moved(stack)
    user.writer.write(EXEC)
    assert await user.reader.readuntil(b"\r\n\r\n") == SWITCHING
    await eventually(lambda: moved(stack) == before + is_native())
    return stack.proxy.local.open_streams(ALL_STREAMS)[-1]


async def test_an_upgraded_connection_carries_bytes_both_ways_and_counts_them(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """After its audit row was stored; a user who ends one direction still gets the other."""
    recorder.script = echo
    listed = await upgrade(stack, user)
    assert (listed.kind, listed.bytes_in, listed.bytes_out) == ("upgrade", 0, len(SWITCHING))
    assert [row.id for row in stack.installation.opened_rows] == [listed.id]
    sent = bytes(range(250)) * (SIZE // 250)
    user.writer.write(sent)
    async with asyncio.timeout(10):
        assert await user.reader.readexactly(SIZE) == sent
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert (listed.bytes_in, listed.bytes_out) == (SIZE, len(SWITCHING) + SIZE)
    user.writer.write_eof()
    assert await user.rest() == b"bye"
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.id, row.status, row.reason) == (listed.id, 101, EndReason.DONE)
    assert (row.bytes_in, row.bytes_out) == (SIZE, len(SWITCHING) + SIZE + 3)
    assert stack.proxy.local.requests.empty


async def test_bytes_that_a_user_sends_before_the_upgrade_follow_it(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    go = asyncio.Event()

    async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        await echo(reader, writer)

    recorder.script = late
    user.writer.write(EXEC)
    await eventually(lambda: recorder.heads)
    user.writer.write(b"early")
    await asyncio.sleep(0.05)
    go.set()
    assert await user.reader.readexactly(len(SWITCHING) + 5) == SWITCHING + b"early"
    await eventually(lambda: moved(stack) == is_native())


@pytest.mark.parametrize("how", ["revoked", "ended", "left", "frozen"])
async def test_a_session_that_is_ended_ends_at_both_sides(
    stack: Stack, recorder: RecordingUpstream, user: User, how: str
) -> None:
    left = asyncio.Event()

    async def until_left(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHING + b"$ ")
        while await reader.read(100):
            pass
        left.set()

    recorder.script = until_left
    listed = await upgrade(stack, user)
    assert await user.reader.readexactly(2) == b"$ "
    if how == "revoked":
        assert stack.proxy.gateway.revoke(user="u1") == 1
    elif how == "ended":
        assert stack.proxy.local.end_stream(listed.id, "root")
    elif how == "frozen":
        assert stack.client is not None
        stack.client.end_streams("an incident")
    else:
        user.writer.get_extra_info("socket").setsockopt(SOL_SOCKET, SO_LINGER, pack("ii", 1, 0))
        user.writer.transport.abort()
    if how != "left":
        with pytest.raises(ConnectionResetError):
            await user.rest()
    async with asyncio.timeout(5):
        await left.wait()
    await eventually(lambda: stack.installation.closed_rows)
    reasons = {
        "revoked": EndReason.REVOKED,
        "ended": EndReason.ENDED,
        "left": EndReason.USER_LEFT,
        "frozen": EndReason.UPSTREAM,
    }
    (row,) = stack.installation.closed_rows
    assert (row.reason, row.status) == (reasons[how], 101)
    assert stack.proxy.local.requests.empty


async def test_an_upgrade_that_is_refused_ends_the_connection(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The bytes after it would be ambiguous."""
    recorder.answer = b"HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno"
    status, head, body = await user.ask(EXEC)
    assert (status, body) == (403, b"no")
    assert head.startswith(b"HTTP/1.1 403 Forbidden\r\nConnection: close\r\n")
    assert await user.rest() == b""
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.status, row.reason, row.bytes_out) == (403, EndReason.DONE, len(head + body))
    await eventually(lambda: moved(stack) == is_native())


async def test_a_session_is_never_started_twice(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Although nobody knows whether the API server has started it."""

    async def gone(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    recorder.script = gone
    assert (await user.ask(EXEC))[0] == 502
    assert len(recorder.heads) == 1
    await eventually(lambda: stack.installation.closed_rows)
    (row,) = stack.installation.closed_rows
    assert (row.status, row.reason, row.refused) == (502, EndReason.UPSTREAM, True)


async def test_python_starts_a_session_that_the_data_link_did_not(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """With the one row that was stored for it."""
    front, link = stack.proxy.front, stack.proxy.tunnels.find(CLUSTER)
    if front is not None and link is not None:
        front.links.forget(link)
    recorder.script = echo
    user.writer.write(EXEC + b"hello")
    answer = await user.reader.readexactly(len(SWITCHING) + 5)
    assert (answer, moved(stack)) == (SWITCHING + b"hello", 0)
    assert len(stack.installation.opened_rows) == 1


async def test_a_recorded_session_stays_in_python(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Another upgrade of the same user does not."""
    stack.installation.recording = RecordingPolicy.ALL
    recorder.script = echo
    user.writer.write(EXEC)
    assert await user.reader.readuntil(b"\r\n\r\n") == SWITCHING
    (listed,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert (listed.recorded, moved(stack)) == (True, 0)
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
    writer.write(EXEC.replace(b"/exec?command=sh", b"/portforward"))
    assert await reader.readuntil(b"\r\n\r\n") == SWITCHING
    await eventually(lambda: moved(stack) == is_native())
    writer.close()


@pytest.mark.parametrize("side", ["user", "server"])
async def test_a_side_that_does_not_read_stops_the_other(
    stack: Stack, recorder: RecordingUpstream, user: User, side: str
) -> None:
    """Within the windows; then all bytes arrive."""
    sent, go = 0, asyncio.Event()

    async def send(writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        while not go.is_set():
            writer.write(bytes(1 << 16))
            await writer.drain()
            sent += 1 << 16
        writer.write(b"end")

    async def server(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(SWITCHING)
        if side == "user":
            await send(writer)
        else:
            await go.wait()
            writer.write(b"got %d." % await size_until_end(reader))
        await reader.read()

    recorder.script = server
    await upgrade(stack, user)
    sending = stack.tasks.spawn("user", send(user.writer)) if side == "server" else None
    seen = -1
    while seen != sent:
        seen = sent
        await asyncio.sleep(0.3)
    assert 0 < sent < 48 << 20
    go.set()
    async with asyncio.timeout(20):
        if sending is None:
            received = await size_until_end(user.reader)
        else:
            await sending
            await user.reader.readuntil(b"got ")
            received = int((await user.reader.readuntil(b"."))[:-1])
    assert received == sent + 3
