"""Simulates a narrow link: `python -m bench.harness.shaper PORT BYTES_A_SECOND DELAY_S`.

Forwards connections to 127.0.0.1:PORT. Each direction has the rate, the one-way delay and a queue
of 600 KB. Receive buffers are small, as the kernel would buffer megabytes otherwise.
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


async def carry(source: socket.socket, sink: socket.socket, rate: float, delay: float) -> None:
    """Forwards one direction: sends chunks in order at the rate, and delivers them with delay."""
    loop = asyncio.get_running_loop()
    line: deque[tuple[float, bytes]] = deque()
    moved = asyncio.Event()
    tasks = Tasks("line")
    tasks.spawn("arrive", _arrive(line, moved, sink))
    free_at = 0.0
    try:
        while data := await loop.sock_recv(source, PIECE):
            free_at = max(loop.time(), free_at) + len(data) / rate
            line.append((free_at + delay, data))
            moved.set()
            backlog = (free_at - loop.time()) - QUEUE / rate
            if backlog > 0:
                await asyncio.sleep(backlog)
    except OSError:
        pass
    finally:
        await tasks.stop()
        source.close()
        sink.close()


async def _arrive(
    line: deque[tuple[float, bytes]], moved: asyncio.Event, sink: socket.socket
) -> None:
    loop = asyncio.get_running_loop()
    while True:
        while not line:
            moved.clear()
            await moved.wait()
        due, data = line.popleft()
        if (wait := due - loop.time()) > 0:
            await asyncio.sleep(wait)
        await loop.sock_sendall(sink, data)


def _socket() -> socket.socket:
    made = socket.socket()
    made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE)
    made.setblocking(False)
    return made


async def main(port: int, rate: float, delay: float) -> None:
    """Forwards every connection until killed."""
    loop, tasks = asyncio.get_running_loop(), Tasks("shaper")
    listening = _socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen(64)
    announce(listening.getsockname()[1])
    while True:
        near, _ = await loop.sock_accept(listening)
        far = _socket()
        await loop.sock_connect(far, ("127.0.0.1", port))
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        tasks.spawn("there", carry(near, far, rate, delay))
        tasks.spawn("back", carry(far, near, rate, delay))


if __name__ == "__main__":
    uvloop.run(main(int(sys.argv[1]), float(sys.argv[2]), float(sys.argv[3])))
