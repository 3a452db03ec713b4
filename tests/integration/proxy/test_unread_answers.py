"""Users who ask and do not read: what is held for them is bounded, and so is the time."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from proxy.domain.limits import Timeouts
from proxy.settings import ProxySettings
from tests.fakes.tls import TestAuthority
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, connection, eventually, run_stack
from tests.integration.proxy.user import PATH, User, request

BIG, HUGE = 200_000, 16_000_000
MANY = 3_000
MOST_HELD = 1_000_000
STRANGER = b"GET " + PATH + b"/api HTTP/1.1\r\nHost: x\r\n\r\n"
APPLICATION = b"GET /" + b"a" * 8_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n"


def answering(size: int) -> bytes:
    return b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (size, b"x" * size)


@asynccontextmanager
async def running_proxy(
    authority: TestAuthority, timeouts: Timeouts
) -> AsyncGenerator[tuple[Stack, RecordingUpstream]]:
    async with run_stack(authority, ProxySettings(timeouts=timeouts)) as stack:
        async with recording_upstream() as server:
            await stack.connect(server.upstream)
            yield stack, server


@asynccontextmanager
async def idle_reader(stack: Stack) -> AsyncGenerator[User]:
    """A user with a small receive buffer who reads nothing before the test asks for it."""
    sock = socket.socket()
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 10)
    sock.setblocking(False)
    await asyncio.get_running_loop().sock_connect(sock, ("127.0.0.1", stack.plain_port))
    reader, writer = await asyncio.open_connection(sock=sock)
    writer.transport.pause_reading()  # ty: ignore[missing-attribute]
    try:
        yield User(reader, writer)
    finally:
        writer.transport.abort()


def read_on(user: User) -> None:
    user.writer.transport.resume_reading()  # ty: ignore[missing-attribute]


def held(stack: Stack) -> int:
    """Bytes that the proxy keeps for its only user."""
    one = connection(stack)
    return one._transport.get_write_buffer_size() + len(one._pending)


async def until_still(count: Callable[[], int]) -> None:
    """Wait until nothing is added any more."""
    before = -1
    async with asyncio.timeout(20):
        while before != (before := count()):
            await asyncio.sleep(0.5)


@pytest.mark.parametrize(
    ("asked", "status", "count"),
    [(request(), 200, MANY), (STRANGER, 401, 20 * MANY), (APPLICATION, 200, MANY)],
    ids=["a cluster", "a cluster without a credential", "the application"],
)
async def test_answers_that_nobody_reads_are_not_piled_up(
    stack: Stack, recorder: RecordingUpstream, asked: bytes, status: int, count: int
) -> None:
    """Pipelined requests wait until the user reads; then they are answered."""
    recorder.answer = answering(BIG)
    async with idle_reader(stack) as user:
        user.writer.write(asked * count)
        await eventually(lambda: stack.proxy.gateway.connections and connection(stack).write_paused)
        await until_still(lambda: held(stack))
        assert connection(stack).write_paused
        assert held(stack) < MOST_HELD
        read_on(user)
        for _ in range(100):
            assert (await user.answer())[0] == status


async def test_an_idle_connection_ends_though_its_user_read_slowly(
    authority: TestAuthority,
) -> None:
    """The time for the next request runs from when the last answer has been read."""
    async with (
        running_proxy(authority, Timeouts(idle=0.5)) as (stack, server),
        idle_reader(stack) as user,
    ):
        server.answer = answering(HUGE)
        # Python serves a write.
        user.writer.write(request(b"DELETE"))
        await eventually(lambda: stack.proxy.gateway.connections and connection(stack).write_paused)
        await asyncio.sleep(1.5)
        read_on(user)
        assert (await user.answer())[0] == 200
        assert await user.rest() == b""


async def test_half_a_head_is_given_up_behind_an_answer_read_slowly(
    authority: TestAuthority,
) -> None:
    """Its time runs once the user has read what came before."""
    async with (
        running_proxy(authority, Timeouts(head=0.5)) as (stack, server),
        idle_reader(stack) as user,
    ):
        server.answer = answering(HUGE)
        user.writer.write(request() + STRANGER[:30])
        await eventually(lambda: stack.proxy.gateway.connections and connection(stack).write_paused)
        await asyncio.sleep(1.5)
        read_on(user)
        assert (await user.answer())[0] == 200
        assert (await user.answer())[0] == 408


@pytest.mark.parametrize("size", [BIG, HUGE], ids=["answers that end", "an answer under way"])
async def test_users_who_never_read_are_cut_off(authority: TestAuthority, size: int) -> None:
    """Whether their last answer is whole or not, and whatever else they send."""
    async with (
        running_proxy(authority, Timeouts(stalled=1.0)) as (stack, server),
        idle_reader(stack) as user,
    ):
        server.answer = answering(size)
        user.writer.write(request() * 100)
        await eventually(lambda: stack.proxy.gateway.connections)
        await eventually(lambda: not stack.proxy.gateway.connections)
