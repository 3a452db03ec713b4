"""Guarantees of a call to hub and agent, over either wire."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from itertools import product
from pathlib import Path

import pytest

from core.errors import Conflict, Invalid, LimitExceeded, TowlineError, Unauthenticated
from core.rpc.calls import (
    INTERNAL_FAILURE,
    Call,
    CallChannel,
    CallFailed,
    CallServer,
    CallStatus,
    Handler,
    status_of,
)
from core.rpc.implementations import GrpcImplementation
from core.runtime.clock import SystemClock
from syncagent.link.channel import Endpoint
from tests.fakes.links import Line, server_of
from tests.fakes.tls import TestAuthority

WIRES = list(product(GrpcImplementation, GrpcImplementation))
TEXT = 'größer als 100 % — 日本\nand a second line, with "quotes" and \\'
PIECE = bytes(range(256)) * 256
HELD_UP = 0.4


@dataclass
class Sides:
    """A server, a channel to it, and the line between."""

    server: CallServer
    channel: CallChannel
    line: Line


@pytest.fixture(params=WIRES, ids=["-to-".join((agent, hub)) for hub, agent in WIRES])
def wires(request: pytest.FixtureRequest) -> tuple[GrpcImplementation, GrpcImplementation]:
    """Of the hub, and of the agent."""
    return request.param


@asynccontextmanager
async def connected(
    wires: tuple[GrpcImplementation, GrpcImplementation],
    *handlers: Handler,
    authority: TestAuthority | None = None,
) -> AsyncGenerator[Sides]:
    """Handlers are served at /0, /1, …"""
    clock = SystemClock()
    async with AsyncExitStack() as stack:
        paths = {f"/test/{number}": handler for number, handler in enumerate(handlers)}
        server = server_of(wires[0], paths, clock)
        port = await server.start(("127.0.0.1", 0), authority)
        stack.push_async_callback(server.stop)
        line = await stack.enter_async_context(Line(port))
        ca = authority.ca.read_bytes() if authority else None
        scheme = "https" if authority else "http"
        address = f"{scheme}://127.0.0.1:{line.port}"
        channel = Endpoint(address, "", ca=ca, wire=wires[1]).connect(clock)
        stack.push_async_callback(channel.close)
        yield Sides(server, channel, line)


async def echo(call: Call) -> None:
    """Says what it hears."""
    while (message := await call.read()) is not None:
        await call.write(message)


async def echoed(channel: CallChannel, *messages: bytes, path: str = "/test/0") -> list[bytes]:
    """Messages that an echo returns for these."""
    call, heard = await channel.call(path, ()), []
    for message in messages:
        await call.write(message)
        heard.append(await call.read() or b"")
    await call.done()
    assert await call.read() is None
    return heard


async def failure(work: Awaitable[object]) -> CallFailed:
    """The failure that it must end with."""
    with pytest.raises(CallFailed) as failed:
        await work
    return failed.value


@dataclass
class Blocked:
    """A handler that does one thing over and over until it cannot, and notes how it ended."""

    act: Callable[[Call], Awaitable[object]]
    entered: asyncio.Event = field(default_factory=asyncio.Event)
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    why: BaseException | None = None

    async def __call__(self, call: Call) -> None:
        self.entered.set()
        try:
            while True:
                await self.act(call)
        except BaseException as error:
            self.why = error
            raise
        finally:
            self.ended.set()


async def soon(event: asyncio.Event) -> None:
    async with asyncio.timeout(20):
        await event.wait()


@pytest.mark.parametrize("secure", [False, True], ids=["plain", "tls"])
async def test_messages_come_back_as_they_went(
    wires: tuple[GrpcImplementation, GrpcImplementation], secure: bool, tmp_path: Path
) -> None:
    """Empty, small and large ones, one after the other."""
    authority = TestAuthority(tmp_path) if secure else None
    messages = [b"", b"a", b"hello" * 20, PIECE[:16_379], PIECE[:16_380], PIECE * 48, b"", b"z"]
    async with connected(wires, echo, authority=authority) as sides:
        assert await echoed(sides.channel, *messages) == messages


async def test_metadata_of_the_caller_reaches_the_handler(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    """Names in lower case; the address of the caller is known."""
    seen: list[Call] = []

    async def note(call: Call) -> None:
        seen.append(call)
        await echo(call)

    async with connected(wires, note) as sides:
        sent = (
            ("authorization", "Bearer a.b-c"),
            ("x-other", "with = and ;"),
            ("x-long", "y" * 4000),
        )
        call = await sides.channel.call("/test/0", sent)
        await call.done()
        assert await call.read() is None
        assert {name: seen[0].metadata[name] for name, _ in sent} == dict(sent)
        assert "127.0.0.1" in seen[0].peer


@pytest.mark.parametrize(
    "error",
    [
        Unauthenticated(TEXT),
        Invalid(TEXT),
        Conflict(TEXT),
        LimitExceeded(TEXT),
        CallFailed(CallStatus.DATA_LOSS, TEXT),
        TowlineError("x" * 700),
    ],
    ids=lambda error: type(error).__name__,
)
@pytest.mark.parametrize("after", [0, 1], ids=["at once", "after a message"])
async def test_a_handler_error_reaches_the_caller_with_status_and_text(
    wires: tuple[GrpcImplementation, GrpcImplementation], error: TowlineError, after: int
) -> None:
    async def refuse(call: Call) -> None:
        for _ in range(after):
            await call.write(b"a message")
        raise error

    async with connected(wires, refuse) as sides:
        call = await sides.channel.call("/test/0", ())
        for _ in range(after):
            assert await call.read() == b"a message"
        failed = await failure(call.read())
        assert (failed.status, failed.message) == (status_of(error), error.message)
        assert await failure(call.read())
        assert await failure(call.write(b"too late"))


async def test_any_other_error_tells_the_caller_nothing(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    async def break_down(call: Call) -> None:
        raise RuntimeError("the password is swordfish")

    async with connected(wires, break_down, echo) as sides:
        failed = await failure((await sides.channel.call("/test/0", ())).read())
        assert (failed.status, failed.message) == (CallStatus.UNKNOWN, INTERNAL_FAILURE)
        assert await echoed(sides.channel, b"a", path="/test/1") == [b"a"]


async def test_a_path_that_nobody_serves(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    async with connected(wires, echo) as sides:
        failed = await failure((await sides.channel.call("/test/7", ())).read())
        assert failed.status is CallStatus.UNIMPLEMENTED
        assert await echoed(sides.channel, b"a") == [b"a"]


async def test_a_message_too_large_is_refused_by_name(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    """Of that call only, whatever its handler makes of it."""
    async with connected(wires, echo) as sides:
        call, other = [await sides.channel.call("/test/0", ()) for _ in range(2)]
        await other.write(b"before")
        assert await other.read() == b"before"
        writing = asyncio.ensure_future(call.write(bytes(5 << 20)))
        async with asyncio.timeout(20):
            failed = await failure(call.read())
            await asyncio.wait({writing})
        assert writing.exception() is None or isinstance(writing.exception(), CallFailed)
        assert failed.status is CallStatus.RESOURCE_EXHAUSTED
        await other.write(b"after")
        assert await other.read() == b"after"
        other.cancel()


async def test_answers_come_after_the_caller_has_said_all(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    async def add_up(call: Call) -> None:
        size = 0
        while (message := await call.read()) is not None:
            size += len(message)
        for _ in range(3):
            await call.write(str(size).encode())

    async with connected(wires, add_up) as sides:
        call = await sides.channel.call("/test/0", ())
        for _ in range(5):
            await call.write(PIECE)
        await call.done()
        assert [await call.read() for _ in range(4)] == [b"327680"] * 3 + [None]


@pytest.mark.parametrize("act", ["read", "write"])
async def test_a_call_that_is_cancelled_ends_its_handler_and_no_other(
    wires: tuple[GrpcImplementation, GrpcImplementation], act: str
) -> None:
    """Whether it waits for a message or for room."""
    handler = Blocked(lambda call: call.read() if act == "read" else call.write(PIECE))
    async with connected(wires, handler, echo) as sides:
        other = await sides.channel.call("/test/1", ())
        call = await sides.channel.call("/test/0", ())
        await soon(handler.entered)
        call.cancel()
        await soon(handler.ended)
        assert isinstance(handler.why, CallFailed | asyncio.CancelledError)
        await other.write(b"still here")
        assert await other.read() == b"still here"
        other.cancel()


async def held_up(write: Callable[[], Awaitable[None]], most: int) -> int:
    """The bytes that were taken before nobody took more; the write that waits is left behind."""
    for written in range(0, most, len(PIECE)):
        task = asyncio.ensure_future(write())
        if not (await asyncio.wait({task}, timeout=HELD_UP))[0]:
            task.add_done_callback(lambda done: done.cancelled() or done.exception())
            return written
    raise AssertionError(f"{most} bytes were taken of which nobody has read one")


@pytest.mark.parametrize("reads_not", ["caller", "handler"])
async def test_a_slow_reader_blocks_its_writer_and_no_other_call(
    wires: tuple[GrpcImplementation, GrpcImplementation], reads_not: str
) -> None:
    """Little waits meanwhile; what was written comes whole once it is read."""
    taken: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    go_on = asyncio.Event()

    async def write(call: Call) -> None:
        taken.set_result(await held_up(lambda: call.write(PIECE), 8 << 20))
        await go_on.wait()

    async def wait(call: Call) -> None:
        await go_on.wait()
        while (message := await call.read()) is not None:
            await call.write(bytes([len(message) % 251]))

    async with connected(wires, write if reads_not == "caller" else wait, echo) as sides:
        call = await sides.channel.call("/test/0", ())
        if reads_not == "handler":
            taken.set_result(await held_up(lambda: call.write(PIECE), 8 << 20))
        async with asyncio.timeout(20):
            size = await taken
            assert await echoed(sides.channel, b"", PIECE, path="/test/1") == [b"", PIECE]
            go_on.set()
            for _ in range(size // len(PIECE)):
                assert await call.read() == (PIECE if reads_not == "caller" else b"\x19")
        call.cancel()


async def test_both_ends_notice_a_cut_connection(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    """And the next call finds a new one."""
    handler = Blocked(lambda call: call.read())
    async with connected(wires, handler, echo) as sides:
        call = await sides.channel.call("/test/0", ())
        await soon(handler.entered)
        reading = asyncio.ensure_future(call.read())
        sides.line.cut()
        failed = await failure(reading)
        assert failed.status is CallStatus.UNAVAILABLE and failed.message
        assert await failure(call.write(b"too late"))
        await soon(handler.ended)
        assert await eventually_echoed(sides.channel) == [b"again"]


async def eventually_echoed(channel: CallChannel) -> list[bytes]:
    """Dialling anew may take grpcio a moment."""
    async with asyncio.timeout(20):
        while True:
            try:
                return await echoed(channel, b"again", path="/test/1")
            except CallFailed as error:
                assert error.status is CallStatus.UNAVAILABLE
                await asyncio.sleep(0.05)


async def test_a_server_that_stops_lets_calls_end_and_takes_no_new_ones(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    """As long as its grace lasts."""
    async with connected(wires, echo) as sides:
        call = await sides.channel.call("/test/0", ())
        await call.write(b"before")
        assert await call.read() == b"before"
        stopping = asyncio.ensure_future(sides.server.stop(20.0))
        async with asyncio.timeout(10):
            while True:
                try:
                    await echoed(sides.channel, b"new")
                except CallFailed:
                    break
        await call.write(b"after")
        assert await call.read() == b"after"
        await call.done()
        assert await call.read() is None
        async with asyncio.timeout(15):
            await stopping


async def test_a_server_whose_grace_is_over_cuts_off(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    handler = Blocked(lambda call: call.read())
    async with connected(wires, handler) as sides:
        call = await sides.channel.call("/test/0", ())
        await soon(handler.entered)
        async with asyncio.timeout(15):
            await sides.server.stop(0.05)
            await soon(handler.ended)
            failed = await failure(call.read())
        assert failed.status in {CallStatus.UNAVAILABLE, CallStatus.CANCELLED}


async def test_calls_at_a_time_are_bounded(
    wires: tuple[GrpcImplementation, GrpcImplementation],
) -> None:
    """One more than may be waits or is refused; when one has ended there is room again."""
    async with connected(wires, echo) as sides:
        calls = [await sides.channel.call("/test/0", ()) for _ in range(64)]
        for number, call in enumerate(calls):
            await call.write(bytes([number]))
        assert [await call.read() for call in calls] == [bytes([number]) for number in range(64)]
        more = asyncio.ensure_future(echoed(sides.channel, b"more"))
        await asyncio.wait({more}, timeout=HELD_UP)
        for call in calls:
            await call.done()
            assert await call.read() is None
        async with asyncio.timeout(20):
            await asyncio.wait({more})
            if isinstance(error := more.exception(), CallFailed):
                assert error.status is CallStatus.UNAVAILABLE
            else:
                assert more.result() == [b"more"]
            assert await echoed(sides.channel, b"again") == [b"again"]


async def test_nobody_answers_at_all(wires: tuple[GrpcImplementation, GrpcImplementation]) -> None:
    """The text names the place."""
    async with connected(wires, echo) as sides:
        await sides.line.stop()
        async with asyncio.timeout(30):
            with pytest.raises(CallFailed, match=str(sides.line.port)) as failed:
                await (await sides.channel.call("/test/0", ())).read()
        assert failed.value.status is CallStatus.UNAVAILABLE
