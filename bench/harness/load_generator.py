"""Load generator with a minimal HTTP client."""

import asyncio
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import cast

END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class BenchTarget:
    """A route to the backend: address, path prefix and credentials.

    `pids`: processes between user and backend. `tls`: the client's TLS context, or None.
    """

    name: str
    port: int
    prefix: str = ""
    token: str = ""
    pids: Sequence[int] = ()

    def head(self, path: str, method: str = "GET", *fields: str) -> bytes:
        """Formats the head of a request without a body."""
        lines = [f"{method} {self.prefix}{path} HTTP/1.1", "Host: bench"]
        if self.token:
            lines.append(f"Authorization: Bearer {self.token}")
        return "\r\n".join([*lines, *fields, "", ""]).encode()


@dataclass(slots=True)
class RequestTimes:
    """Measured seconds of each request."""

    latencies: list[float] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.latencies) / self.seconds

    def percentile(self, part: float) -> float:
        """Percentile in seconds."""
        return percentile(self.latencies, part)


def percentile(values: Sequence[float], part: float) -> float:
    """Percentile of values for `part` (0 to 1)."""
    return sorted(values)[min(len(values) - 1, int(len(values) * part))]


class Getter(asyncio.Protocol):
    """Repeats one request on a connection; responses must have a Content-Length."""

    def __init__(self, request: bytes, tally: RequestTimes, pause: float = 0.0) -> None:
        self._request, self._tally, self._pause = request, tally, pause
        self._bytes_left = 0
        self._head = b""
        self._begun = 0.0
        self._transport: asyncio.Transport
        self.stopping = False
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._send_request()

    def data_received(self, data: bytes) -> None:
        if not self._bytes_left:
            data = self._head + data
            end = data.find(END_OF_HEAD)
            if end < 0:
                self._head = data
                return
            self._head = b""
            self._bytes_left = _content_length(data[:end]) + end + 4
        self._bytes_left -= len(data)
        if not self._bytes_left:
            self._on_response()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            error = exc or ConnectionError("closed by the far side")
            self.done.set_exception(error)

    def _send_request(self) -> None:
        self._begun = time.perf_counter()
        self._transport.write(self._request)

    def _on_response(self) -> None:
        self._tally.latencies.append(time.perf_counter() - self._begun)
        if self.stopping:
            self.done.set_result(None)
            self._transport.close()
        elif self._pause:
            asyncio.get_running_loop().call_later(self._pause, self._send_request)
        else:
            self._send_request()


def _content_length(head: bytes) -> int:
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(f"unexpected response {head[:80]!r}")
    at = head.lower().index(b"content-length:") + 15
    return int(head[at:].split(b"\r\n", 1)[0])


async def send_requests(
    system: BenchTarget, path: str, connections: int, seconds: float, pause: float = 0.0
) -> RequestTimes:
    """Sends requests at full speed, one at a time per connection."""
    tally, loop = RequestTimes(), asyncio.get_running_loop()
    request = system.head(path)
    getters = []
    began = time.perf_counter()
    for _ in range(connections):
        _, getter = await loop.create_connection(
            lambda: Getter(request, tally, pause), "127.0.0.1", system.port
        )
        getters.append(getter)
    await asyncio.sleep(seconds)
    for getter in getters:
        getter.stopping = True
    await asyncio.gather(*(getter.done for getter in getters))
    tally.seconds = time.perf_counter() - began
    return tally


async def download_rate(
    system: BenchTarget, size: int, kind: str = "bytes", turn: int = 0
) -> float:
    """Bytes per second of one download. `turn`: distinguishes its head from others."""
    tally = RequestTimes()
    request = system.head(f"/{kind}?n={size}&turn={turn}")
    _, getter = await asyncio.get_running_loop().create_connection(
        lambda: Getter(request, tally), "127.0.0.1", system.port
    )
    getter.stopping = True
    await getter.done
    return size / tally.latencies[0]


class Downloads:
    """Background downloads until stopped."""

    def __init__(self, system: BenchTarget, size: int, count: int) -> None:
        self.received = 0
        self._workers = [asyncio.ensure_future(self._run(system, size)) for _ in range(count)]

    async def _run(self, system: BenchTarget, size: int) -> None:
        while True:
            reader, writer = await connect(system)
            writer.write(system.head(f"/bytes?n={size}"))
            bytes_left = size
            await reader.readuntil(END_OF_HEAD)
            while bytes_left and (data := await reader.read(1 << 18)):
                bytes_left -= len(data)
                self.received += len(data)
            writer.close()

    async def stop(self) -> None:
        """Stops all downloads."""
        for worker in self._workers:
            worker.cancel()
        await asyncio.gather(*self._workers, return_exceptions=True)


async def connect(system: BenchTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens a connection of a user."""
    return await asyncio.open_connection("127.0.0.1", system.port, limit=1 << 20)


async def upgrade(system: BenchTarget) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Opens an upgraded connection to the echo path."""
    reader, writer = await connect(system)
    writer.write(system.head("/echo", "POST", "Connection: Upgrade", "Upgrade: SPDY/3.1"))
    head = await reader.readuntil(END_OF_HEAD)
    if not head.startswith(b"HTTP/1.1 101"):
        raise RuntimeError(f"no upgrade: {head[:80]!r}")
    return reader, writer


async def echo_round_trips(system: BenchTarget, seconds: float) -> float:
    """Round trips of 64 bytes per second over one upgraded connection."""
    reader, writer = await upgrade(system)
    count, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        writer.write(b"e" * 64)
        await reader.readexactly(64)
        count += 1
    writer.close()
    return count / seconds


async def echo_bytes(system: BenchTarget, size: int) -> float:
    """Echoed bytes per second over one upgraded connection."""
    reader, writer = await upgrade(system)
    began = time.perf_counter()
    sending = asyncio.ensure_future(_send(writer, size))
    bytes_left = size
    while bytes_left:
        bytes_left -= len(await reader.read(1 << 18))
    took = time.perf_counter() - began
    await sending
    writer.close()
    return size / took


async def _send(writer: asyncio.StreamWriter, size: int) -> None:
    piece = b"e" * (64 << 10)
    for _ in range(size // len(piece)):
        writer.write(piece)
        await writer.drain()


async def watch(system: BenchTarget, rate: int, seconds: float) -> list[float]:
    """Latency of a watch's events in seconds."""
    reader, writer = await connect(system)
    writer.write(system.head(f"/api/v1/watch?watch=1&rate={rate}"))
    await reader.readuntil(END_OF_HEAD)
    ages: list[float] = []
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        line = await reader.readuntil(b"\n")
        if line.startswith(b"{"):
            ages.append((time.monotonic_ns() - json.loads(line)["t"]) / 1e9)
    writer.close()
    return ages


async def open_idle_watches(
    system: BenchTarget, count: int, concurrency: int = 100
) -> list[asyncio.StreamWriter]:
    """Opens idle watches."""
    free_slots = asyncio.Semaphore(concurrency)

    async def open_watch() -> asyncio.StreamWriter:
        async with free_slots:
            reader, writer = await connect(system)
            writer.write(system.head("/api/v1/hang?watch=1"))
            head = await reader.readuntil(END_OF_HEAD)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(f"no watch: {head[:200]!r}")
            return writer

    return await asyncio.gather(*(open_watch() for _ in range(count)))
