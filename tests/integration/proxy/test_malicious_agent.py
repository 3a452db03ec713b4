"""An agent in enemy hands harms its own cluster's requests only."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import cast

import pytest

from core.links.base_link import BaseLink
from core.links.call_link import make_call_link
from core.links.heartbeat import Heartbeat
from core.mux import codec
from core.mux.budget import ReceiveBudget
from core.mux.codec import END, Hello
from core.mux.mux import Mux, MuxSettings, MuxTime
from core.rpc.calls import CallFailed, CallStatus
from core.rpc.methods import TUNNEL
from core.runtime.clock import SystemClock
from tests.fakes.kube_proxy import CLUSTER
from tests.fakes.tunnel import RecordingMuxOwner, RecordingOwner
from tests.integration.proxy.recording import OK, recording_upstream
from tests.integration.proxy.stack import Stack, eventually, signed
from tests.integration.proxy.user import User, request


class Agent:
    """An agent whose answers a test writes by hand."""

    def __init__(self, link: BaseLink) -> None:
        self.owner = RecordingMuxOwner()
        self.link = link
        self.mux = Mux(
            link,
            self.owner,
            hub=False,
            hello=Hello(b"e" * 16, 256 << 10),
            time=MuxTime(SystemClock(), asyncio.get_running_loop()),
            budget=ReceiveBudget(1 << 20),
            settings=MuxSettings(),
        )

    async def next_request(self, number: int = 1) -> RecordingOwner:
        """The stream of the n-th request."""
        await eventually(lambda: len(self.owner.accepted) >= number)
        return list(self.owner.accepted.values())[number - 1]


@pytest.fixture
async def agent(stack: Stack) -> AsyncGenerator[Agent, None]:
    async with connected(stack) as one:
        yield one


@asynccontextmanager
async def connected(stack: Stack) -> AsyncGenerator[Agent, None]:
    """A hand-driven agent, known to the proxy."""
    async with stack.channel() as channel:
        call = await channel.call(TUNNEL, signed("agent-token"))
        one = Agent(make_call_link(call))
        carrying = stack.tasks.spawn("agent", one.link.carry(one.mux, Heartbeat(SystemClock())))
        await eventually(lambda: stack.proxy.tunnels.is_connected(CLUSTER))
        yield one
        one.mux.close("the test is over")
        call.cancel()
        await carrying


def send(stream: RecordingOwner, data: bytes, flags: int = 0) -> None:
    assert stream.stream is not None
    stream.stream.send(data, flags)


@pytest.mark.parametrize(
    "answer",
    [
        OK + OK,
        OK + b"\r\n",
        b"HTTP/1.1 101 Go\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + OK,
        b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel",
        b"garbage" * 20_000,
        b"",
    ],
)
async def test_wrong_answers_end_only_their_request(
    stack: Stack, agent: Agent, user: User, answer: bytes
) -> None:
    """The user sees a 502 or a broken connection, never an end that looks whole."""
    user.writer.write(request())
    send(await agent.next_request(), answer, END)
    try:
        async with asyncio.timeout(5):
            head = await user.reader.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 502"):
                with pytest.raises(ConnectionResetError):
                    await user.reader.read()
    except ConnectionResetError:
        pass
    assert stack.proxy.tunnels.is_connected(CLUSTER)


async def test_bytes_behind_an_answer_do_not_reach_the_next_request(
    stack: Stack, agent: Agent, user: User
) -> None:
    """The stream is not the connection: what comes late on one stays there."""
    user.writer.write(request())
    first = await agent.next_request()
    send(first, OK)
    assert (await user.answer())[2] == b"ok"
    user.writer.write(request(b"GET", b"/api/v1/nodes"))
    second = await agent.next_request(2)
    send(first, b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil")
    await eventually(lambda: first.reset)
    assert first.reset is not None
    assert first.reset[0] == codec.PROTOCOL
    send(second, OK, END)
    assert (await user.answer())[2] == b"ok"


async def test_frames_for_other_streams_close_the_link(
    stack: Stack, agent: Agent, user: User
) -> None:
    """An id that was never opened is no agent's to use; its users get an answer."""
    user.writer.write(request())
    await agent.next_request()
    agent.mux.post(99, codec.DATA | END, OK)
    status, _, _ = await user.answer()
    assert status == 502
    await eventually(lambda: not stack.proxy.tunnels.is_connected(CLUSTER))


async def test_whoever_broke_the_rules_may_not_begin_anew_at_once(
    stack: Stack, agent: Agent
) -> None:
    """Else the hub would be busy with one agent for ever; the refusal says why it has to wait."""
    agent.mux.post(99, codec.DATA | END, OK)
    await eventually(lambda: not stack.proxy.tunnels.is_connected(CLUSTER))
    async with stack.channel() as channel:
        call = await channel.call(TUNNEL, signed("agent-token"))
        with pytest.raises(CallFailed, match="protocol error") as refused:
            await call.read()
        assert refused.value.status is CallStatus.UNAVAILABLE
    stack.proxy.tunnels._violations[CLUSTER] = (0.0, "")
    async with recording_upstream() as server:
        await stack.connect(server.upstream)
        assert stack.proxy.tunnels.is_connected(CLUSTER)


async def test_data_beyond_credit_ends_the_request(stack: Stack, agent: Agent, user: User) -> None:
    """A sender that ignores its window fills nobody's memory."""
    cast(asyncio.Transport, user.writer.transport).pause_reading()
    user.writer.write(request())
    stream = (await agent.next_request()).stream
    assert stream is not None
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n"
    agent.mux.post(stream.id, codec.DATA, head)
    for _ in range(4000):
        agent.mux.post(stream.id, codec.DATA, b"x" * (32 << 10))
        if stream.closed:
            break
        await asyncio.sleep(0)
    await eventually(lambda: stream.closed or agent.mux.closed)
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is None or link.budget.used == 0


async def test_a_request_that_is_never_answered_ends_with_its_user(
    stack: Stack, agent: Agent, user: User
) -> None:
    """The agent gets the reason, and nothing of it is left."""
    user.writer.write(request())
    stream = await agent.next_request()
    user.writer.transport.abort()
    await eventually(lambda: stream.reset)
    assert stream.reset == (codec.CANCELLED, "")
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is not None
    assert not link.streams
