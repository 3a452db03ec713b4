"""The agent's HTTP client on a server that sends any bytes."""

import asyncio
import gzip
import socket
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager

import pytest

from core.http1 import proxy_connect
from core.http1.pool import ServerAddress
from syncagent.kube.http import HttpAnswer, HttpClient, HttpRequest
from tests.fakes.local_server import LocalServer

GET = HttpRequest("GET", "/api/v1/pods?limit=5", {"Accept": "application/json"})
PATCH = HttpRequest("PATCH", "/api/v1/pods/a", {}, b'{"a": 1}')
COUNTED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3\r\nllo\r\n0\r\n\r\n"


class ScriptedServer:
    """Sends one response after another, and remembers the requests of each connection.

    An empty response ends the connection, as does `ends` after each response.
    """

    def __init__(self, *responses: bytes, ends: bool = False, pieces: int = 1 << 16) -> None:
        self.responses, self._ends, self._pieces = list(responses), ends, pieces
        self.connections: list[list[bytes]] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests: list[bytes] = []
        self.connections.append(requests)
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            _, _, length = head.partition(b"Content-Length: ")
            size = int(length.split(b"\r\n")[0]) if length else 0
            requests.append(head + await reader.readexactly(size))
            response = self.responses.pop(0)
            for start in range(0, len(response), self._pieces):
                writer.write(response[start : start + self._pieces])
                await writer.drain()
                await asyncio.sleep(0)
            if self._ends or not response:
                return


@asynccontextmanager
async def client_of(server: ScriptedServer) -> AsyncGenerator[HttpClient]:
    async with LocalServer(server.serve) as local:
        client = HttpClient(ServerAddress("127.0.0.1", local.port))
        yield client
        await client.close()


async def test_requests_are_sent_one_after_another_over_one_connection() -> None:
    server = ScriptedServer(COUNTED, CHUNKED, COUNTED)
    async with client_of(server) as client:
        for request in (GET, PATCH, GET):
            assert await client.send(request) == HttpAnswer(200, "", b"hello")
    (requests,) = server.connections
    lines = requests[0].decode().split("\r\n")
    assert lines[0] == "GET /api/v1/pods?limit=5 HTTP/1.1"
    assert lines[1].startswith("Host: 127.0.0.1:")
    assert lines[2:] == ["User-Agent: towline-agent", "Accept: application/json", "", ""]
    assert requests[1].endswith(b'Content-Length: 8\r\n\r\n{"a": 1}')


@pytest.mark.parametrize("pieces", [1, 7, 64])
@pytest.mark.parametrize(
    ("response", "body"),
    [
        (COUNTED, b"hello"),
        (CHUNKED, b"hello"),
        (b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + COUNTED, b"hello"),
        (b"HTTP/1.1 200 OK\r\n\r\nuntil the end", b"until the end"),
        (b"HTTP/1.1 204 No Content\r\n\r\n", b""),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n" + gzip.compress(b"packed"),
            b"packed",
        ),
    ],
    ids=["counted", "chunked", "interim", "until-end", "empty", "gzip"],
)
async def test_bodies_are_read_wherever_they_are_cut(
    response: bytes, body: bytes, pieces: int
) -> None:
    async with client_of(ScriptedServer(response, ends=True, pieces=pieces)) as client:
        assert (await client.send(GET)).body == body


async def test_the_time_to_wait_is_read_from_an_overloaded_server() -> None:
    refusal = b"HTTP/1.1 429 Too Many Requests\r\nRetry-After: 7\r\nContent-Length: 0\r\n\r\n"
    async with client_of(ScriptedServer(refusal)) as client:
        assert await client.send(GET) == HttpAnswer(429, "7", b"")


@pytest.mark.parametrize(
    ("response", "reason"),
    [
        (b"SSH-2.0-OpenSSH_9.2\r\n", "malformed"),
        (COUNTED[:-1], "disconnected"),
        (CHUNKED[:-2], "disconnected"),
        (b"HTTP/1.1 200 OK\r\nContent-Len", "disconnected"),
        (b"HTTP/1.1 200 OK\r\nX: " + b"x" * (65 << 10), "too long"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\nnot gzip", "malformed"),
        (b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n", "malf"),
    ],
)
async def test_a_response_that_is_cut_off_or_malformed_fails(response: bytes, reason: str) -> None:
    async with client_of(ScriptedServer(response, ends=True)) as client:
        with pytest.raises(OSError, match=reason):
            await client.send(PATCH)


@pytest.mark.parametrize(
    "response",
    [
        COUNTED + COUNTED,
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 5\r\n\r\nhello",
        b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello",
    ],
    ids=["two-responses", "close", "http-1.0"],
)
async def test_a_connection_that_cannot_be_reused_gets_no_second_request(response: bytes) -> None:
    server = ScriptedServer(response, COUNTED)
    async with client_of(server) as client:
        for _ in range(2):
            assert (await client.send(GET)).body == b"hello"
    assert [len(requests) for requests in server.connections] == [1, 1]


async def test_a_read_over_a_connection_that_just_ended_is_sent_again() -> None:
    server = ScriptedServer(COUNTED, b"", COUNTED)
    async with client_of(server) as client:
        await client.send(GET)
        assert (await client.send(GET)).body == b"hello"
    assert [len(requests) for requests in server.connections] == [2, 1]


async def test_a_write_over_a_connection_that_just_ended_is_not_repeated() -> None:
    """Nobody knows whether the server has executed it."""
    server = ScriptedServer(COUNTED, b"", COUNTED)
    async with client_of(server) as client:
        await client.send(GET)
        with pytest.raises(OSError, match="disconnected"):
            await client.send(PATCH)
    assert [len(requests) for requests in server.connections] == [2]


async def test_a_read_over_a_new_connection_is_not_repeated() -> None:
    server = ScriptedServer(b"", COUNTED)
    async with client_of(server) as client:
        with pytest.raises(OSError, match="disconnected"):
            await client.send(GET)


async def test_idle_connections_end() -> None:
    """Each one keeps buffers here and at the API server."""
    ended = asyncio.Event()
    server = ScriptedServer(COUNTED)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await server.serve(reader, writer)
        except asyncio.IncompleteReadError:
            ended.set()

    async with LocalServer(serve) as local:
        client = HttpClient(ServerAddress("127.0.0.1", local.port), idle_seconds=0.02)
        await client.send(GET)
        async with asyncio.timeout(30):
            await ended.wait()
        await client.close()


async def test_a_reader_that_stops_holds_up_the_server() -> None:
    """A log that nobody reads does not fill the agent's memory."""
    sent = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        for _ in range(1000):
            writer.write(b"x" * (64 << 10))
            await writer.drain()
            sent += 64 << 10

    async with LocalServer(serve) as local:
        client = HttpClient(ServerAddress("127.0.0.1", local.port))
        async with client.open(GET, silence=60) as body:
            parts = aiter(body)
            read = len(await anext(parts))
            before = -1
            while sent != before:
                before = sent
                await asyncio.sleep(0.1)
            assert sent < 32 << 20
            async for part in parts:
                read += len(part)
        assert read == 1000 * (64 << 10)
        await client.close()


async def test_a_stream_without_any_byte_for_long_fails() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"
    async with client_of(ScriptedServer(head)) as client:
        async with client.open(GET, silence=0.05) as body:
            parts = aiter(body)
            assert await anext(parts) == b"{}"
            with pytest.raises(TimeoutError):
                await anext(parts)


async def test_closing_ends_requests_that_wait() -> None:
    arrived = asyncio.Event()

    async def serve(reader: asyncio.StreamReader, _: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()

    async with LocalServer(serve) as local:
        client = HttpClient(ServerAddress("127.0.0.1", local.port))
        waiting = asyncio.ensure_future(client.send(GET))
        await arrived.wait()
        await client.close()
        with pytest.raises(OSError, match="disconnected"):
            await waiting


@pytest.mark.parametrize(
    "change",
    [
        lambda: HttpRequest("GET", "/a b", {}),
        lambda: HttpRequest("GET", "/a\r\nX: y", {}),
        lambda: HttpRequest("GET", "/ä", {}),
        lambda: HttpRequest("GET", "/a", {"Impersonate-User": "a\r\nImpersonate-User: b"}),
        lambda: HttpRequest("GET", "/a", {"Impersonate-User": "a\nX: b"}),
        lambda: HttpRequest("GET", "/a", {"Impersonate-User": "a\rX: b"}),
    ],
)
async def test_no_value_adds_lines_to_a_request(change: Callable[[], HttpRequest]) -> None:
    server = ScriptedServer(COUNTED)
    async with client_of(server) as client:
        with pytest.raises(ValueError):
            await client.send(change())
    assert server.connections == []


async def test_an_address_that_drops_all_is_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    """An API server may have several addresses: a load balancer's, or those of its nodes."""
    monkeypatch.setattr(proxy_connect, "ADDRESS_SECONDS", 0.05)
    full = socket.create_server(("127.0.0.1", 0), backlog=0)
    waiting = [socket.socket() for _ in range(4)]
    for queued in waiting:
        queued.setblocking(False)
        queued.connect_ex(full.getsockname())

    async def addresses(*_: object, **__: object) -> list[tuple]:
        places = (full.getsockname(), ("127.0.0.1", local.port))
        return [(socket.AF_INET, socket.SOCK_STREAM, 0, "", place) for place in places]

    async with LocalServer(ScriptedServer(COUNTED).serve) as local:
        monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", addresses)
        client = HttpClient(ServerAddress("api.example", local.port))
        assert (await client.send(GET)).body == b"hello"
        await client.close()
    for opened in (full, *waiting):
        opened.close()
