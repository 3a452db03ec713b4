"""What happens when a part is away, slow, or goes away in the middle."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import cast

import pytest

from core.identity import ClusterId
from core.runtime.clock import SystemClock
from proxy.domain.access import LastContact
from proxy.domain.audit import EndReason
from proxy.domain.limits import StreamLimits, Timeouts
from proxy.settings import ProxySettings
from syncagent.tunnel.upstream import Upstream
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.recording import OK, RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.integration.proxy.user import User, request

HALF = b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"
WATCH = (
    b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
    b"Transfer-Encoding: chunked\r\n\r\n8\r\n{event}\n\r\n"
)
WATCHED = b"/api/v1/pods?watch=1"
EXEC = b"/api/v1/namespaces/d/pods/p/exec?command=sh"
UPGRADE = (b"Connection: Upgrade", b"Upgrade: websocket")
SWITCHED = b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"


@asynccontextmanager
async def a_user(stack: Stack, *, limit: int = 1 << 16) -> AsyncGenerator[User, None]:
    """One more connection to the proxy, which reads `limit` bytes ahead."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port, limit=limit)
    try:
        yield User(reader, writer)
    finally:
        writer.close()


@asynccontextmanager
async def running_proxy(
    authority: TestAuthority, settings: ProxySettings
) -> AsyncGenerator[tuple[Stack, RecordingUpstream], None]:
    """A proxy with other settings, its agent connected."""
    async with run_stack(authority, settings) as stack, recording_upstream() as recorder:
        await stack.connect(recorder.upstream)
        yield stack, recorder


async def half_an_answer(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A script that stops in the middle of a body."""
    writer.write(HALF)
    await asyncio.sleep(60)


async def a_watch(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A script that sends one event and then nothing."""
    writer.write(WATCH)
    await asyncio.sleep(60)


async def a_shell(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """A script that shows a prompt and then nothing."""
    writer.write(SWITCHED + b"prompt")
    await asyncio.sleep(60)


async def test_upstream_that_dies_in_the_body_breaks_the_connection(
    recorder: RecordingUpstream, user: User
) -> None:
    """The user must not take half of an answer for the whole."""
    recorder.answer, recorder.close_after = HALF, True
    user.writer.write(request())
    with pytest.raises(ConnectionResetError):
        await user.rest()


MIDDLES = {
    "body": (request(), half_an_answer, b"half"),
    "watch": (request(b"GET", WATCHED), a_watch, b"{event}"),
    "exec": (request(b"GET", EXEC, *UPGRADE), a_shell, b"prompt"),
}


@pytest.mark.parametrize("killed", [False, True])
@pytest.mark.parametrize("name", MIDDLES)
async def test_agent_that_dies_in_the_middle_breaks_the_connection(
    stack: Stack, user: User, name: str, killed: bool
) -> None:
    """Whether its process or its link ends: soon, never cleanly, and the row is closed."""
    asked, script, seen = MIDDLES[name]
    async with recording_upstream() as recorder:
        agent = await stack.connect(recorder.upstream)
        recorder.script = script
        user.writer.write(asked)
        await user.reader.readuntil(seen)
        if killed:
            agent.cancel()
        else:
            stack.proxy.tunnels.stop()
        with pytest.raises(ConnectionResetError):
            await user.rest()
        await eventually(lambda: stack.installation.closed_rows)
    assert [row.reason for row in stack.installation.closed_rows] == [EndReason.UPSTREAM]


async def test_an_agent_that_dies_before_the_response_yields_502(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """A request without an answer gets one."""

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    recorder.script = silence
    user.writer.write(request(b"DELETE"))
    await eventually(lambda: recorder.heads)
    stack.proxy.tunnels.stop()
    status, _, body = await user.answer()
    assert status == 502
    assert b'the agent of \\"dev\\"' in body


async def test_an_unreachable_api_server_yields_502(stack: Stack, user: User) -> None:
    """502, with what the agent found."""

    async def token() -> str:
        return "t"

    async with recording_upstream() as gone:
        port = gone.port
    await stack.connect(Upstream("127.0.0.1", port, None, token))
    status, _, body = await user.ask(request())
    assert status == 502
    assert b"cannot reach its API server" in body


async def test_absent_agent(stack: Stack, user: User) -> None:
    """503 at once, with the age of the last contact and nothing that makes clients try on."""
    at = SystemClock().now() - timedelta(minutes=3, seconds=12)
    stack.installation.seen = LastContact(at)
    status, head, body = await user.ask(request())
    assert status == 503
    assert b"retry-after" not in head.lower()
    assert b"last seen 3m12s ago" in body
    assert b"kubectl -n towline-agent logs deployment/towline-agent" in body
    assert b'Warning: 299 towline "cluster \\"dev\\" is not connected' in head


async def test_refused_agent_gets_a_reason(stack: Stack, recorder: RecordingUpstream) -> None:
    """A wrong token ends the call with the sentence to show."""
    assert "not an agent token" in await stack.agent(recorder.upstream, "wrong")
    assert stack.proxy.tunnels.is_connected(CLUSTER)


async def test_second_agent_takes_over(stack: Stack, user: User) -> None:
    """The newest wins; the old one gets the reason, and requests go to the new one."""
    async with recording_upstream() as first, recording_upstream() as second:
        old = await stack.connect(first.upstream)
        await stack.connect(second.upstream)
        await old
        await eventually(lambda: stack.proxy.tunnels.is_connected(CLUSTER))
        assert (await user.ask(request()))[0] == 200
        assert (len(first.heads), len(second.heads)) == (0, 1)


@pytest.mark.parametrize(("method", "status"), [(b"GET", 200), (b"DELETE", 502)])
async def test_stale_connection_is_tried_again_only_where_harmless(
    recorder: RecordingUpstream, user: User, method: bytes, status: int
) -> None:
    """The API server closed a kept connection just as the request came."""
    assert (await user.ask(request()))[0] == 200

    async def hang_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recorder.script = None
        writer.transport.abort()

    recorder.script = hang_up
    got, _, _ = await user.ask(request(method, b"/api/v1/namespaces/a/pods/b"))
    assert got == status


async def test_user_who_leaves_ends_the_watch_upstream(
    stack: Stack, recorder: RecordingUpstream
) -> None:
    """At once, and the row says so."""
    ended = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(WATCH)
        await reader.read()
        ended.set()

    recorder.script = script
    async with a_user(stack) as user:
        user.writer.write(request(b"GET", WATCHED))
        await user.reader.readuntil(b"{event}")
    async with asyncio.timeout(2):
        await ended.wait()
    await eventually(lambda: stack.installation.closed_rows)
    assert stack.installation.closed_rows[0].reason == EndReason.USER_LEFT


async def test_lost_right_ends_open_requests(authority: TestAuthority) -> None:
    """Even when nobody tells the proxy, it asks again."""
    settings = ProxySettings(timeouts=Timeouts(recheck=0.1))
    async with running_proxy(authority, settings) as (stack, recorder), a_user(stack) as user:
        recorder.script = a_watch
        user.writer.write(request(b"GET", WATCHED))
        await user.reader.readuntil(b"{event}")
        stack.installation.forbidden.add("ann")
        with pytest.raises(ConnectionResetError):
            async with asyncio.timeout(5):
                await user.reader.read()
        assert stack.installation.closed_rows[0].reason == EndReason.REVOKED


async def test_revocation_before_the_answer(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """A request that waits for its answer is refused; others go on."""

    async def silence(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(60)

    recorder.script = silence
    user.writer.write(request())
    await eventually(lambda: recorder.heads)
    assert stack.proxy.gateway.revoke(user="somebody else") == 0
    assert stack.proxy.gateway.revoke(session="other", cluster=ClusterId("c2")) == 0
    assert stack.proxy.gateway.revoke(cluster=CLUSTER) == 1
    assert (await user.answer())[0] == 401


async def test_late_answer(authority: TestAuthority) -> None:
    """504, except for a watch, whose events may take for ever."""
    settings = ProxySettings(timeouts=Timeouts(answer=0.2))
    async with running_proxy(authority, settings) as (stack, recorder):
        go = asyncio.Event()

        async def late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await go.wait()
            await a_watch(reader, writer)

        recorder.script = late
        async with a_user(stack) as user, a_user(stack) as watcher:
            watcher.writer.write(request(b"GET", WATCHED))
            await eventually(lambda: recorder.heads)
            status, _, body = await user.ask(request())
            assert status == 504
            assert b"did not answer" in body
            # The watch came first: whoever ends the other had passed it over.
            go.set()
            async with asyncio.timeout(10):
                await watcher.reader.readuntil(b"{event}")


async def test_slow_head_is_cut_off(authority: TestAuthority) -> None:
    """A head must be complete in time, however steadily it trickles."""
    settings = ProxySettings(timeouts=Timeouts(head=0.3))
    async with run_stack(authority, settings) as stack, a_user(stack) as user:
        sent = 0
        with pytest.raises((ConnectionError, TimeoutError)):
            for byte in request() * 100:
                user.writer.write(bytes([byte]))
                sent += 1
                await user.writer.drain()
                await asyncio.sleep(0.05)
                if user.reader.at_eof():
                    raise ConnectionResetError
        assert sent < 100


async def test_too_many_requests_of_one_user(authority: TestAuthority) -> None:
    """429 with Retry-After; room comes back when one ends."""
    settings = ProxySettings(streams=StreamLimits(per_user_and_cluster=1))
    async with running_proxy(authority, settings) as (stack, recorder):
        recorder.script = a_watch
        async with a_user(stack) as watcher, a_user(stack) as user:
            watcher.writer.write(request(b"GET", WATCHED))
            await watcher.reader.readuntil(b"{event}")
            status, head, _ = await user.ask(request())
            assert status == 429
            assert b"Retry-After: 1\r\n" in head
            recorder.script = None
            watcher.writer.close()
            await eventually(lambda: not stack.proxy.gateway.open_requests)
            assert (await user.ask(request()))[0] == 200


async def test_slow_reader_holds_up_nobody_and_little_memory(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """A user who does not read stops the API server's sending, not the link."""
    sent = 0

    async def endless(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        recorder.script = None
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        while True:
            writer.write(b"x" * 65536)
            await writer.drain()
            sent += 65536

    recorder.script = endless
    async with a_user(stack, limit=1 << 10) as slow:
        slow.writer.write(request())
        await eventually(lambda: sent)
        before = -1
        while sent != before:
            before = sent
            await asyncio.sleep(0.3)
        assert sent < 40 << 20
        for _ in range(20):
            assert (await user.ask(request()))[2] == b"ok"


async def test_an_upload_that_nobody_reads_holds_up_nobody_and_little_memory(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """An API server that does not read stops its user's sending, not the link."""
    let_go = asyncio.Event()

    async def unread(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        recorder.script = None
        cast(asyncio.Transport, writer.transport).pause_reading()
        await let_go.wait()

    recorder.script = unread
    sent = 0
    async with a_user(stack) as uploader:
        long = b"Content-Length: 1000000000"
        uploader.writer.write(request(b"POST", b"/api/v1/namespaces/d/configmaps", long))
        await eventually(lambda: recorder.heads)
        with pytest.raises(TimeoutError):
            while sent < 200 << 20:
                uploader.writer.write(bytes(64 << 10))
                sent += 64 << 10
                async with asyncio.timeout(1):
                    await uploader.writer.drain()
        assert sent < 40 << 20
        for _ in range(20):
            assert (await user.ask(request()))[2] == b"ok"
        uploader.writer.transport.abort()
    let_go.set()
    await eventually(lambda: len(stack.installation.closed_rows) == 21)


async def test_drain_lets_requests_end(authority: TestAuthority) -> None:
    """Idle connections go, answers say that they are the last, the rest ends after the grace."""
    settings = ProxySettings(timeouts=Timeouts(grace=1.0))
    async with running_proxy(authority, settings) as (stack, recorder):
        go = asyncio.Event()

        async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            recorder.script = half_an_answer
            await go.wait()
            writer.write(OK)

        recorder.script = slow
        async with a_user(stack) as idle, a_user(stack) as busy, a_user(stack) as endless:
            busy.writer.write(request())
            await eventually(lambda: len(recorder.heads) == 1)
            endless.writer.write(request())
            await endless.reader.readuntil(b"half")
            draining = stack.tasks.spawn("drain", stack.proxy.drain())
            assert await idle.rest() == b""
            assert stack.client is not None
            await stack.client.draining.wait()
            go.set()
            status, head, _ = await busy.answer()
            assert (status, b"\r\nConnection: close\r\n" in head) == (200, True)
            assert await busy.rest() == b""
            with pytest.raises(ConnectionResetError):
                await endless.rest()
            await draining
        await eventually(lambda: len(stack.installation.closed_rows) == 2)
        reasons = {row.reason for row in stack.installation.closed_rows}
        assert reasons == {EndReason.DONE, EndReason.DRAINED}


async def test_drain_ends_a_watch_between_events(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Cleanly, and long before the grace is over, so that its client resumes without a list."""
    go = asyncio.Event()

    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(WATCH + b"8\r\n{ev")
        await go.wait()
        writer.write(b"ent}\n\r\n")
        await reader.read()

    recorder.script = script
    user.writer.write(request(b"GET", WATCHED))
    await user.reader.readuntil(b"{ev")
    await user.reader.readuntil(b"{ev")
    draining = stack.tasks.spawn("drain", stack.proxy.drain())
    await asyncio.sleep(0.2)
    assert not draining.done()
    go.set()
    assert await user.rest() == b"ent}\n\r\n0\r\n\r\n"
    await draining
    assert stack.installation.closed_rows[0].reason == EndReason.DRAINED


async def test_uvicorn_that_stops_leaves_open_requests_to_the_drain(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """Its shutdown closes idle connections, and no live one."""
    go = asyncio.Event()

    async def slow(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await go.wait()
        writer.write(OK)

    recorder.script = slow
    user.writer.write(request())
    await eventually(lambda: recorder.heads)
    async with a_user(stack) as idle:
        await eventually(lambda: stack.connections == 2)
        stack.close_idle()
        assert await idle.rest() == b""
    go.set()
    assert (await user.answer())[2] == b"ok"


async def test_churn_leaves_nothing_behind(stack: Stack, recorder: RecordingUpstream) -> None:
    """After many requests, aborts and upgrades: no stream, connection, task or held byte."""

    async def one(number: int) -> None:
        async with a_user(stack) as user:
            for _ in range(5):
                if number % 4 == 0:
                    user.writer.write(request())
                    user.writer.transport.abort()
                    return
                assert (await user.ask(request()))[0] == 200

    for _ in range(4):
        await asyncio.gather(*(one(number) for number in range(40)))
    gateway = stack.proxy.gateway
    await eventually(lambda: not gateway.connections)
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is not None
    await eventually(lambda: not link.streams)
    assert link.budget.used == 0
    assert len(gateway.tasks._tasks) == 2
    assert stack.proxy.local.requests.empty
    assert stack.client is not None
    await eventually(lambda: not stack.client._mux.streams if stack.client._mux else True)
    rows = stack.installation.closed_rows
    assert all(row.reason in {EndReason.DONE, EndReason.USER_LEFT} for row in rows)
