"""Bounds of the edge, what is noted of refusals, and requests that are looked at and ended."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from core.identity import TokenKind, new_token
from core.open_streams import ALL_STREAMS
from proxy.domain.access import ImpersonationRule
from proxy.domain.audit import EndReason
from proxy.domain.limits import HeadLimits, StreamLimits, Timeouts
from proxy.gateway.connection import DEAD_PEER_MILLISECONDS, UserConnection
from proxy.settings import DataPlane, ProxySettings
from syncagent.tunnel.guard import Guard, ImpersonationPolicy
from tests.fakes.kube_proxy import ANN
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.recording import OK, RecordingUpstream, recording_upstream
from tests.integration.proxy.scripts import watching
from tests.integration.proxy.stack import Stack, eventually, run_stack
from tests.integration.proxy.user import PATH, User, request


@asynccontextmanager
async def running_proxy(
    authority: TestAuthority, **settings: object
) -> AsyncGenerator[tuple[Stack, RecordingUpstream]]:
    """A proxy with these settings and an agent of a recording upstream."""
    async with run_stack(authority, ProxySettings(**settings)) as stack:  # ty: ignore[invalid-argument-type]
        async with recording_upstream() as server:
            await stack.connect(server.upstream)
            yield stack, server


@asynccontextmanager
async def connected(stack: Stack) -> AsyncGenerator[User]:
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
    try:
        yield User(reader, writer)
    finally:
        writer.close()


async def test_waves_of_requests_go_over_the_same_connections(authority: TestAuthority) -> None:
    """However many are answered at once: to dial anew would cost more than the request."""
    crowd = 96
    together = asyncio.Barrier(crowd)

    async def answer_together(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            await together.wait()
            writer.write(OK)
            await reader.readuntil(b"\r\n\r\n")

    async with running_proxy(authority) as (stack, server), contextlib.AsyncExitStack() as leaving:
        server.script = answer_together
        users = [await leaving.enter_async_context(connected(stack)) for _ in range(crowd)]
        for _ in range(3):
            answers = await asyncio.gather(*(user.ask(request()) for user in users))
            assert [status for status, _, _ in answers] == [200] * crowd
        assert server.connections <= crowd * stack.pools


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (request(b"GET", b"/api", b"X: a\r\n b"), 400),
        (request(b"GET", b"/api", b"X: " + b"a" * (70 << 10)), 431),
        (request(b"GET", b"/api", b"Host: other"), 400),
        (b"GET /k8s/clusters/ HTTP/1.1\r\nHost: x\r\n\r\n", 404),
        (b"GET /k8s/clusters/dev/api HTTP/2.0\r\nHost: x\r\n\r\n", 400),
    ],
)
async def test_unreadable_requests_are_noted(
    stack: Stack, user: User, data: bytes, status: int
) -> None:
    """A row with status and source, and nothing of what the client sent."""
    assert (await user.ask(data))[0] == status
    (row,) = stack.installation.closed_rows
    assert (row.status, row.refused, row.identity) == (status, True, None)
    assert row.source.startswith("127.0.0.1:")
    assert (row.user_agent, row.attributes) == ("", None)


async def test_requests_of_the_application_leave_no_row(stack: Stack, user: User) -> None:
    """Garbage that names no cluster is counted only."""
    await user.ask(b"GET / HTTP/1.1\r\nX: a\r\n b\r\n\r\n")
    assert stack.installation.closed_rows == []


async def test_http2_is_refused_at_once(stack: Stack, user: User) -> None:
    """A client that speaks HTTP/2 unasked hears so in HTTP/1.1."""
    status, _, _ = await user.ask(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
    assert status == 400
    assert await user.rest() == b""


async def test_a_slow_head_is_given_up(authority: TestAuthority) -> None:
    """A byte now and then does not hold a connection; nor does saying nothing."""
    timeouts = Timeouts(head=1.0, idle=1.0)
    async with running_proxy(authority, timeouts=timeouts) as (stack, _), connected(stack) as slow:
        async with connected(stack) as silent:
            slow.writer.write(b"GET " + PATH + b"/api HTTP/1.1\r\n")

            async def trickle() -> None:
                while True:
                    slow.writer.write(b"X: y\r\n")
                    await asyncio.sleep(0.1)

            trickling = stack.tasks.spawn("trickle", trickle())
            status, _, _ = await slow.answer()
            trickling.cancel()
            assert status == 408
            assert await silent.rest() == b""
        (row,) = stack.installation.closed_rows
        assert row.status == 408


async def test_peers_that_acknowledge_nothing_are_given_up_after_a_minute(
    authority: TestAuthority,
) -> None:
    """By the system, whatever waits for them: their host has gone without a word."""
    async with (
        running_proxy(authority, data_plane=DataPlane.PORTABLE) as (stack, _),
        connected(stack) as user,
    ):
        await user.ask(request())
        (connection,) = cast("set[UserConnection]", stack.proxy.gateway.connections)
        sock = connection._transport.get_extra_info("socket")
        milliseconds = sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT)
        assert milliseconds == DEAD_PEER_MILLISECONDS == 60_000


async def test_connections_are_bounded(authority: TestAuthority) -> None:
    """One connection too many is refused, and the others go on."""
    limits = StreamLimits(connections=2)
    async with running_proxy(authority, streams=limits) as (stack, _):
        async with connected(stack) as first, connected(stack) as second:
            assert (await first.ask(request()))[0] == 200
            assert (await second.ask(request()))[0] == 200
            async with connected(stack) as third:
                assert (await third.answer())[0] == 503
            assert (await first.ask(request()))[0] == 200


async def test_requests_end_at_their_age(authority: TestAuthority) -> None:
    """Whatever is open is ended after a life, and the row says why."""
    timeouts = Timeouts(recheck=0.2, life=0.3)
    async with (
        running_proxy(authority, timeouts=timeouts) as (stack, server),
        connected(stack) as user,
    ):
        server.script = watching
        user.writer.write(request(b"GET", b"/api/v1/pods?watch=1"))
        with pytest.raises(ConnectionError):
            await user.rest()
        (row,) = stack.installation.closed_rows
        assert row.reason is EndReason.TOO_OLD


async def test_open_requests_are_listed_and_ended(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """By id; the user's connection breaks, and the row says why."""
    recorder.script = watching
    user.writer.write(request(b"GET", b"/api/v1/namespaces/a/pods?watch=1"))
    await eventually(
        lambda: any(one.bytes_out for one in stack.proxy.local.open_streams(ALL_STREAMS))
    )
    (stream,) = stack.proxy.local.open_streams(ALL_STREAMS)
    assert (stream.user, stream.handle, stream.what) == ("ann", "dev", "watch pods a")
    assert stream.kind == "watch"
    assert not stack.proxy.local.end_stream("nothing", "root")
    assert stack.proxy.local.end_stream(stream.id, "root")
    with pytest.raises(ConnectionError):
        await user.rest()
    (row,) = stack.installation.closed_rows
    assert row.reason is EndReason.ENDED
    assert stack.installation.began_rows == [row]
    assert stack.proxy.local.open_streams(ALL_STREAMS) == []


async def test_revoking_a_grant_ends_what_it_let_in(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """And nothing else."""
    recorder.script = watching
    user.writer.write(request(b"GET", b"/api/v1/pods?watch=1"))
    await eventually(lambda: stack.proxy.local.open_streams(ALL_STREAMS))
    assert stack.proxy.gateway.revoke(grant="other") == 0
    assert stack.proxy.gateway.revoke(grant="g1") == 1
    await eventually(lambda: stack.installation.closed_rows)
    assert stack.installation.closed_rows[0].reason is EndReason.REVOKED


async def test_only_allowed_users_are_impersonated(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The row of an allowed one has both users, and the groups that were asked for."""
    rule = ImpersonationRule.of(["user:bob", "group:qa"])
    assert rule is not None
    stack.installation.impersonation["ann"] = rule
    fields = (b"Impersonate-User: bob", b"Impersonate-Group: qa")
    assert (await user.ask(request(b"GET", b"/api", *fields)))[0] == 200
    await eventually(lambda: stack.installation.closed_rows)
    status, _, body = await user.ask(request(b"GET", b"/api", b"Impersonate-User: root"))
    assert (status, b'may not act as user \\"root\\"' in body) == (403, True)
    allowed, refused = stack.installation.closed_rows
    assert allowed.identity is not None
    assert (allowed.identity.name, allowed.acting_as) == ("ann", "bob")
    assert allowed.acting_groups == ("qa",)
    assert (refused.status, refused.refused, refused.acting_as) == (403, True, None)
    assert len(recorder.heads) == 1


ODD_PATHS = (
    b"/api/v1/namespaces/a/pods/http:b:80/proxy/c//d/%2F/e%20f;g?h=%2F&i",
    b"/api/v1/namespaces/a/services/https:b:s/proxy/?x=../y",
    b"/api/v1/nodes/n/proxy/logs/",
    b"/apis/x.example/v1/things?fieldSelector=a%3Db&watch=0",
    b"/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
)


@pytest.mark.parametrize("path", ODD_PATHS)
async def test_proxied_paths_pass_byte_for_byte(
    recorder: RecordingUpstream, user: User, path: bytes
) -> None:
    """Behind `…/proxy/` a path is the workload's own affair."""
    assert (await user.ask(request(b"GET", path)))[0] == 200
    assert recorder.heads[0].startswith(b"GET " + path + b" HTTP/1.1\r\n")


async def test_draining_tells_every_client(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """The answer under way says that it is the connection's last; so does a refusal."""
    started, go_on = asyncio.Event(), asyncio.Event()

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        started.set()
        await go_on.wait()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")

    recorder.script = script
    async with connected(stack) as refused:
        refused.writer.write(b"GET " + PATH)
        user.writer.write(request())
        await started.wait()
        stack.tasks.spawn("drain", stack.proxy.drain())
        await eventually(lambda: stack.proxy.gateway.draining)
        refused.writer.write(b"/api HTTP/1.1\r\nHost: x\r\n\r\n")
        status, head, _ = await refused.answer()
        assert (status, b"Connection: close\r\n" in head) == (401, True)
        go_on.set()
        status, head, body = await user.answer()
        assert (status, body) == (200, b"ok")
        assert head.startswith(b"HTTP/1.1 200 OK\r\nConnection: close\r\n")
        assert await user.rest() == b""


async def test_a_reader_that_stops_holds_up_nobody(
    stack: Stack, recorder: RecordingUpstream, user: User
) -> None:
    """What it leaves unread is bounded; others are answered meanwhile."""
    size = 64 << 20

    async def script(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % size)
        with contextlib.suppress(ConnectionError):
            for _turn in range(size >> 16):
                writer.write(bytes(1 << 16))
                await writer.drain()

    recorder.script = script
    user.writer.transport.pause_reading()  # ty: ignore[missing-attribute]
    user.writer.write(request())
    await eventually(
        lambda: any(one.bytes_out for one in stack.proxy.local.open_streams(ALL_STREAMS))
    )
    recorder.script = None
    async with connected(stack) as other:
        for _ in range(20):
            assert (await other.ask(request()))[0] == 200
    assert stack.proxy.local.open_streams(ALL_STREAMS)[0].bytes_out < 32 << 20


async def test_passthrough_sends_the_users_own_token_only(authority: TestAuthority) -> None:
    """Neither an identity nor the agent's token; one of this installation never leaves it."""
    async with running_proxy(authority, passthrough=frozenset({"dev"})) as (stack, server):
        async with connected(stack) as user:
            stack.installation.users["a.b.c"] = ANN
            status, _, body = await user.ask(request(token=b"a.b.c"))
            assert (status, b"does not accept users" in body) == (403, True)
            assert stack.client is not None
            stack.client._guard = Guard(ImpersonationPolicy(passthrough=True))
            assert (await user.ask(request(token=b"a.b.c")))[0] == 200
            (head,) = server.heads
            assert b"\r\nAuthorization: Bearer a.b.c\r\n" in head
            assert head.lower().count(b"authorization:") == 1
            assert b"impersonate-" not in head.lower()
            assert b"Host: 127.0.0.1:" in head
            secret = new_token(TokenKind.USER)
            stack.installation.users[secret] = ANN
            assert (await user.ask(request(token=secret.encode())))[0] == 403
            asked = request(b"GET", b"/api", b"Impersonate-User: bob", token=b"a.b.c")
            assert (await user.ask(asked))[0] == 403
            assert len(server.heads) == 1


async def test_heads_are_bounded_by_settings(authority: TestAuthority) -> None:
    """What an installation allows is what is allowed."""
    limits = HeadLimits(size=600)
    async with running_proxy(authority, head=limits) as (stack, _), connected(stack) as user:
        assert (await user.ask(request()))[0] == 200
        assert (await user.ask(request(b"GET", b"/api", b"X: " + b"a" * 600)))[0] == 431


UPLOAD = request(b"POST", b"/api/v1/namespaces/d/configmaps", b"Content-Length: 100")


async def test_a_steady_upload_takes_the_time_it_needs(authority: TestAuthority) -> None:
    """The time for the answer runs from the last byte of the request.

    Together the pieces take longer than that time, and no pause on a busy machine does.
    """
    async with running_proxy(authority, timeouts=Timeouts(answer=3.5)) as (stack, _):
        async with connected(stack) as user:
            user.writer.write(UPLOAD)
            for _ in range(10):
                await asyncio.sleep(0.4)
                user.writer.write(bytes(10))
            assert (await user.answer())[0] == 200


async def test_an_upload_that_stops_is_given_up(authority: TestAuthority) -> None:
    """The response says that the body did not arrive."""
    async with running_proxy(authority, timeouts=Timeouts(answer=1.0, idle=0.5)) as (stack, _):
        async with connected(stack) as user:
            user.writer.write(UPLOAD + bytes(50))
            status, _, body = await user.answer()
            assert (status, b"body have arrived for 1 s" in body) == (408, True)
            assert await user.rest() == b""
    (row,) = stack.installation.closed_rows
    assert (row.status, row.reason) == (408, EndReason.TIMEOUT)


async def test_an_upload_to_the_application_that_stops_is_given_up(
    authority: TestAuthority,
) -> None:
    """Before anybody has signed in: else one user could hold all connections."""
    async with running_proxy(authority, timeouts=Timeouts(answer=1.0)) as (stack, _):
        async with connected(stack) as user:
            user.writer.write(b"POST /x HTTP/1.1\r\nHost: proxy\r\nContent-Length: 10\r\n\r\nabc")
            status, _, body = await user.answer()
            assert (status, b"body have arrived for 1 s" in body) == (408, True)
            assert await user.rest() == b""
        await eventually(lambda: not stack.proxy.gateway.connections)


async def test_a_steady_upload_to_the_application_takes_the_time_it_needs(
    authority: TestAuthority,
) -> None:
    async with running_proxy(authority, timeouts=Timeouts(answer=3.5)) as (stack, _):
        async with connected(stack) as user:
            user.writer.write(b"POST /x HTTP/1.1\r\nHost: proxy\r\nContent-Length: 10\r\n\r\n")
            for _ in range(10):
                await asyncio.sleep(0.4)
                user.writer.write(b"a")
            assert (await user.answer())[::2] == (200, b"POST /x 10")


async def test_a_whole_upload_is_answered_in_time(authority: TestAuthority) -> None:
    """Else the API server is named."""
    async with running_proxy(authority, timeouts=Timeouts(answer=1.0)) as (stack, server):
        server.script = watching_nothing
        async with connected(stack) as user:
            user.writer.write(UPLOAD + bytes(50))
            await eventually(lambda: server.heads)
            status, _, body = await user.ask(bytes(50))
            assert (status, b"did not answer" in body) == (504, True)


async def watching_nothing(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
    """Takes all and says nothing."""
    await reader.read()
