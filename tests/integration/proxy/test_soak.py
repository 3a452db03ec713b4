"""A while of coming and going in all ways; then everything is as before."""

import asyncio
import gc
import os
import random
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any, Self

from core.http1.connection import UpstreamConnection
from core.mux.mux import Mux
from core.mux.stream import TunnelStream
from proxy.gateway.connection import UserConnection
from proxy.gateway.forward.proxied_request import ProxiedRequest
from syncagent.tunnel.egress import EgressStream
from syncagent.tunnel.upstream_request import UpstreamRequest
from tests.fakes.kube_proxy import CLUSTER
from tests.integration.proxy.recording import RecordingUpstream, recording_upstream
from tests.integration.proxy.stack import Stack, eventually
from tests.integration.proxy.user import request

OURS = (
    Mux,
    TunnelStream,
    UserConnection,
    ProxiedRequest,
    UpstreamConnection,
    UpstreamRequest,
    EgressStream,
)
USERS, ROUNDS, PIPELINED = 12, 10, 8
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
SWITCHED = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"


class Dropped(list[Any]):
    """A list that keeps nothing: what a fake notes would be memory, too."""

    def append(self, one: Any) -> None:
        pass

    def __iadd__(self, more: object) -> Self:
        return self


async def _serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, head: bytes) -> None:
    """Whatever the path asks for: a watch, an echo, a large body, a broken one."""
    path = head.split(b" ")[1]
    with suppress(ConnectionError):
        if path.startswith(b"/watch"):
            writer.write(CHUNKED)
            while not writer.is_closing():
                writer.write(b"5\r\n{...}\r\n")
                await asyncio.sleep(0.01)
        elif path.startswith(b"/echo"):
            writer.write(SWITCHED)
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3000000\r\n\r\n")
            writer.write(b"b" * 2_000_000)
            if path.startswith(b"/whole"):
                writer.write(b"b" * 1_000_000)
            await writer.drain()


async def _user(stack: Stack, seed: int) -> None:
    choice = random.Random(seed)
    for _ in range(ROUNDS):
        reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
        with suppress(ConnectionError, asyncio.IncompleteReadError, TimeoutError):
            await _one(reader, writer, choice)
        if choice.random() < 0.5:
            writer.transport.abort()
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()


async def _one(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, choice: random.Random
) -> None:
    kind = choice.choice([b"/watch?watch=1", b"/echo", b"/whole", b"/broken"])
    if kind == b"/echo":
        writer.write(request(b"POST", kind, b"Connection: Upgrade", b"Upgrade: SPDY/3.1"))
        writer.write(b"e" * choice.randrange(200_000))
    else:
        writer.write(request(b"GET", kind))
    async with asyncio.timeout(choice.random() * 0.3):
        while await reader.read(choice.randrange(1, 100_000)):
            pass


Quiet = tuple[Counter[str], int, int]


def _alive() -> Counter[str]:
    gc.collect()
    return Counter(type(one).__name__ for one in gc.get_objects() if isinstance(one, OURS))


async def _quiet(stack: Stack) -> Quiet:
    """What is alive, open and running once nobody asks any more."""
    link = stack.proxy.tunnels.find(CLUSTER)
    assert link is not None
    await eventually(lambda: not stack.proxy.gateway.connections and not link.streams)
    assert stack.client is not None and stack.client._mux is not None
    await eventually(lambda: not stack.client._mux.streams)
    assert link.budget.used == 0
    await asyncio.sleep(0.3)
    return _alive(), len(os.listdir("/proc/self/fd")), len(asyncio.all_tasks())


async def test_churn_leaks_no_stream_task_descriptor_or_object(stack: Stack) -> None:
    """Two turns of the same churn leave the same behind: nothing."""
    async with recording_upstream() as upstream:
        _answer_by(upstream)
        await stack.connect(upstream.upstream)
        await asyncio.gather(*(_user(stack, seed) for seed in range(USERS)))
        before = await _quiet(stack)
        await asyncio.gather(*(_user(stack, 100 + seed) for seed in range(USERS)))
        async with asyncio.timeout(60):
            while not _as_before(before, after := await _quiet(stack)):
                print("not yet as before", after[0] - before[0], after[1:], before[1:])


def _as_before(before: Quiet, after: Quiet) -> bool:
    alive, descriptors, tasks = after
    return alive == before[0] and descriptors <= before[1] + 2 and tasks <= before[2]


async def _ask_often(stack: Stack, times: int) -> None:
    """Small requests on one kept-alive connection, eight on their way at once."""
    reader, writer = await asyncio.open_connection("127.0.0.1", stack.plain_port)
    for _ in range(times // PIPELINED):
        writer.write(request() * PIPELINED)
        for _ in range(PIPELINED):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
            await reader.readexactly(2)
    writer.close()
    await writer.wait_closed()


async def _day(stack: Stack, requests: int) -> int:
    """Resident bytes after so many requests."""
    await asyncio.gather(*(_ask_often(stack, requests // USERS) for _ in range(USERS)))
    await _quiet(stack)
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def test_a_day_of_small_requests_leaves_memory_as_it_was(stack: Stack) -> None:
    """Scaled: 12,000 streams, what 24 people ask in a day at 500 each, after 3,000 to warm up."""
    async with recording_upstream() as upstream:
        upstream.answer = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"
        upstream.heads, upstream.bodies = Dropped(), Dropped()
        known = stack.installation
        known.closed_rows, known.checked, known.asked = Dropped(), Dropped(), Dropped()
        await stack.connect(upstream.upstream)
        before = await _day(stack, 3_000)
        grown = await _day(stack, 12_000) - before
        assert grown < 12_000 * 200


def _answer_by(upstream: RecordingUpstream) -> None:
    async def script(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await _serve(reader, writer, upstream.heads[-1])

    upstream.script = script
