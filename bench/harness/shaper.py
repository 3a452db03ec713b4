"""Simulates a narrow link: `python -m bench.harness.shaper BYTES_A_SECOND DELAY_S FROM=TO…`.

Forwards connections from ports of 127.0.0.1 to others. All connections together have the rate in
each direction; each has the one-way delay. A queue of 600 KB waits in each direction. Receive
buffers are small, as the kernel would buffer megabytes otherwise.
"""

import asyncio
import socket
import sys
from collections import deque

import uvloop

from bench.harness.programs import announce
from core.runtime.tasks import Tasks

QUEUE = 600_000
RECEIVE = 32_768
PIECE = 16_384


class Direction:
    """One direction of the line, shared by all connections."""

    def __init__(self, rate: float, delay: float) -> None:
        self._rate, self._delay = rate, delay
        self._free_at = 0.0

    def send(self, size: int) -> tuple[float, float]:
        """Occupies the line; returns when the bytes arrive, and how long the next ones wait."""
        now = asyncio.get_running_loop().time()
        self._free_at = max(now, self._free_at) + size / self._rate
        return self._free_at + self._delay, self._free_at - now - QUEUE / self._rate


async def carry(source: socket.socket, sink: socket.socket, direction: Direction) -> None:
    """Forwards chunks of one connection in order."""
    loop = asyncio.get_running_loop()
    line: deque[tuple[float, bytes]] = deque()
    has_data = asyncio.Event()
    tasks = Tasks("line")
    tasks.spawn("arrive", _deliver(line, has_data, sink))
    try:
        while data := await loop.sock_recv(source, PIECE):
            due, backlog = direction.send(len(data))
            line.append((due, data))
            has_data.set()
            if backlog > 0:
                await asyncio.sleep(backlog)
    except OSError:
        pass
    finally:
        await tasks.stop()
        source.close()
        sink.close()


async def _deliver(
    line: deque[tuple[float, bytes]], has_data: asyncio.Event, sink: socket.socket
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        while not line:
            has_data.clear()
            await has_data.wait()
        due, data = line.popleft()
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        await loop.sock_sendall(sink, data)


def _new_socket() -> socket.socket:
    created = socket.socket()
    created.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
    created.setblocking(False)
    return created


async def main(rate: float, delay: float, routes: list[str]) -> None:
    """Forwards every connection until killed."""
    tasks = Tasks("shaper")
    there, back = Direction(rate, delay), Direction(rate, delay)
    for route in routes:
        entry, _, port = route.partition("=")
        listening = _new_socket()
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(("127.0.0.1", int(entry)))
        listening.listen(64)
        tasks.spawn("accept", _accept(listening, int(port), (there, back), tasks))
    announce(len(routes))
    await asyncio.Event().wait()


async def _accept(
    listening: socket.socket, port: int, directions: tuple[Direction, Direction], tasks: Tasks
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        near, _ = await loop.sock_accept(listening)
        far = _new_socket()
        await loop.sock_connect(far, ("127.0.0.1", port))
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tasks.spawn("there", carry(near, far, directions[0]))
        tasks.spawn("back", carry(far, near, directions[1]))


if __name__ == "__main__":
    uvloop.run(main(float(sys.argv[1]), float(sys.argv[2]), sys.argv[3:]))
