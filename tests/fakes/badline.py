"""A bad line: a TCP relay that is slow, far away, and cut or stalled now and then."""

import asyncio
import random
from contextlib import suppress

from core.runtime.tasks import Tasks

_PIECE = 1024


class BadLine:
    """Relays to `target` on 127.0.0.1 with `delay` seconds each way and `rate` bytes a second."""

    def __init__(self, target: int, *, delay: float, rate: float) -> None:
        self._target = target
        self._delay = delay
        self._rate = rate
        self._tasks = Tasks("bad line")
        self._open: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._going = asyncio.Event()
        self._going.set()
        self.cuts = 0
        self.port = 0

    async def __aenter__(self) -> "BadLine":
        self._server = await asyncio.start_server(self._relay, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        self.cut()
        await self._tasks.stop()

    def cut(self) -> None:
        """Break all connections off."""
        self.cuts += 1
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    def stall(self) -> None:
        """Take connections and bytes, and carry nothing on until `go_on`."""
        self._going.clear()

    def go_on(self) -> None:
        """End of `stall`."""
        self._going.set()

    async def cut_at_random(self, chance: random.Random, apart: tuple[float, float]) -> None:
        """Cut again and again, for ever."""
        while True:
            await asyncio.sleep(chance.uniform(*apart))
            self.cut()

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, back = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            writer.transport.abort()
            return
        self._open |= {writer, back}
        self._tasks.spawn("up", self._carry(reader, back))
        self._tasks.spawn("down", self._carry(there, writer))

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Bytes leave at the line's rate and arrive after its delay."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        deliver = self._tasks.spawn("deliver", self._deliver(queue, sink))
        now = asyncio.get_running_loop().time
        with suppress(OSError):
            while data := await source.read(_PIECE):
                await asyncio.sleep(len(data) / self._rate)
                await self._going.wait()
                await queue.put((now() + self._delay, data))
        await queue.put((now() + self._delay, b""))
        await asyncio.wait([deliver])

    async def _deliver(
        self, queue: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter
    ) -> None:
        now = asyncio.get_running_loop().time
        with suppress(OSError):
            while True:
                due, data = await queue.get()
                await asyncio.sleep(max(0.0, due - now()))
                if not data:
                    sink.close()
                    return
                sink.write(data)
                await sink.drain()
