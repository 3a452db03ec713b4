"""A bad line: a TCP relay that is slow, far away, and cut or stalled now and then."""

import asyncio
import random
from contextlib import suppress

from tests.fakes.local_server import LocalServer

_PIECE = 1024


class BadLine(LocalServer):
    """Relays to `target` on 127.0.0.1 with `delay` seconds each way and `rate` bytes a second."""

    def __init__(self, target: int, *, delay: float, rate: float) -> None:
        super().__init__(self._relay)
        self._target = target
        self._delay = delay
        self._rate = rate
        self._going = asyncio.Event()
        self._going.set()
        self._onward: set[asyncio.StreamWriter] = set()
        self.cuts = 0

    def cut(self) -> None:
        """Break all connections off."""
        self.cuts += 1
        super().cut()
        for back in self._onward:
            back.transport.abort()

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
        self._onward.add(back)
        try:
            await asyncio.gather(self._carry(reader, back), self._carry(there, writer))
        finally:
            self._onward.discard(back)
            back.transport.abort()

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
        """Bytes leave at the line's rate and arrive after its delay."""
        queue: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue(256)
        await asyncio.gather(self._take(source, queue), self._deliver(queue, sink))

    async def _take(
        self, source: asyncio.StreamReader, queue: asyncio.Queue[tuple[float, bytes]]
    ) -> None:
        now = asyncio.get_running_loop().time
        with suppress(OSError):
            while data := await source.read(_PIECE):
                await asyncio.sleep(len(data) / self._rate)
                await self._going.wait()
                await queue.put((now() + self._delay, data))
        await queue.put((now() + self._delay, b""))

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
