"""Requests that run for long, over both data planes: the native hub moves the bytes of a watch to
its end, and everything else is as on the portable one.
"""

import asyncio

import pytest

from core.open_streams import ALL_STREAMS, OpenStream
from proxy.domain.audit import EndReason
from proxy.settings import DataPlane
from tests.fakes.kube_proxy import CLUSTER
from tests.integration.proxy.http2_user import http2_user
from tests.integration.proxy.recording import RecordingUpstream
from tests.integration.proxy.scripts import ENDLESS, EVENT
from tests.integration.proxy.stack import Stack, eventually
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


async def watch(stack: Stack, user: User) -> OpenStream:
    """Opens a watch, which the native hub serves if there is one; returns its row."""
    before = moved(stack)
    user.writer.write(WATCH)
    await user.reader.readuntil(CHUNK)
    is_native = chosen_plane(DataPlane.PORTABLE) is DataPlane.NATIVE
    await eventually(lambda: moved(stack) == before + is_native)
    return stack.proxy.here.open_streams(ALL_STREAMS)[-1]


async def test_a_watch_is_listed_with_its_present_size(
    stack: Stack, events: Events, user: User
) -> None:
    listed = await watch(stack, user)
    assert (listed.user, listed.kind, listed.bytes_out) == ("ann", "watch", BEGUN)
    events.more.put_nowait(CHUNK)
    await user.reader.readuntil(CHUNK)
    (listed,) = stack.proxy.here.open_streams(ALL_STREAMS)
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
    assert stack.proxy.here.requests.empty
    recorder.script = None
    assert (await user.ask(request()))[::2] == (200, b"ok")


@pytest.mark.parametrize("how", ["revoked", "ended", "forbidden"])
async def test_a_watch_that_is_ended_is_reset(
    stack: Stack, events: Events, user: User, how: str
) -> None:
    """Never as if the API server had ended it, who gets no more of it either."""
    listed = await watch(stack, user)
    if how == "revoked":
        assert stack.proxy.revoke(user="u1") == 1
    elif how == "ended":
        assert stack.proxy.here.end_stream(listed.id, "root")
    else:
        stack.installation.forbidden.add("ann")
        await stack.proxy.recheck("u1")
    with pytest.raises(ConnectionResetError):
        await user.rest()
    async with asyncio.timeout(5):
        await events.left.wait()
    await eventually(lambda: stack.installation.closed_rows)
    reason = EndReason.ENDED if how == "ended" else EndReason.REVOKED
    (row,) = stack.installation.closed_rows
    assert (row.reason, row.status, row.refused) == (reason, 200, False)
    assert not stack.proxy.here.open_streams(ALL_STREAMS)


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
        assert stack.proxy.revoke(user="u1") == 1
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
    await eventually(lambda: stack.proxy.here.requests.empty)


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
    assert stack.proxy.here.requests.empty


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
    assert stack.proxy.here.requests.loads()["project shop"].total == 1
    user.writer.close()
    await eventually(lambda: stack.proxy.here.requests.empty)


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
        assert not stack.proxy.gateway.connections
        sizes = {row.bytes_out for row in stack.proxy.here.open_streams(ALL_STREAMS)}
        assert sizes == {BEGUN}
        h2.h2.reset_stream(left)
        h2.flush()
        await eventually(lambda: [row.reason for row in rows] == [EndReason.USER_LEFT])
        await events.left.wait()
        events.more.put_nowait(END)
        await eventually(lambda: len(rows) == 2)
        assert rows[1].reason is EndReason.DONE
        assert stack.proxy.revoke(user="u1") == 1
        await eventually(lambda: len(rows) == 3)
        assert rows[2].reason is EndReason.REVOKED
        await eventually(lambda: h2.responses[done].over and h2.responses[ended].over)
        again = h2.ask(PATH)
        await h2.until(again, over=False)
        await eventually(lambda: moved(stack) == 4)
        await stack.proxy.drain()
        assert (await h2.until(again)).content == EVENT
        assert rows[3].reason is EndReason.DRAINED
    assert stack.proxy.here.requests.empty


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
    (listed,) = stack.proxy.here.open_streams(ALL_STREAMS)
    user.writer.close()
    await eventually(lambda: stack.installation.closed_rows)
    assert [row.id for row in stack.installation.began_rows] == [listed.id]
    assert [row.id for row in stack.installation.closed_rows] == [listed.id]
