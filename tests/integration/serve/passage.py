"""The only ways out of a closed network: sockets in a folder that both sides see.

python passage.py out SOCKET PORT …            outside: what comes by SOCKET goes to 127.0.0.1:PORT
python passage.py in SOCKET PORT … -- COMMAND  inside: what comes to 127.0.0.1:PORT goes to SOCKET,
                                               for as long as the command runs
"""

import asyncio
import fcntl
import socket
import struct
import sys
from collections.abc import Awaitable, Callable

Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]

_SIOCSIFFLAGS = 0x8914
_IFF_UP = 1


async def let_out(ways: list[tuple[str, int]]) -> None:
    """Carry connections until killed."""
    for path, port in ways:
        await asyncio.start_unix_server(_to_port(port), path)
    await asyncio.Event().wait()


async def run_inside(ways: list[tuple[str, int]], command: list[str]) -> int:
    """How the command has ended, in a new network that has its own loopback and nothing else."""
    with socket.socket() as any_socket:
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", _IFF_UP))
    for path, port in ways:
        await asyncio.start_server(_to_socket(path), "127.0.0.1", port)
    return await (await asyncio.create_subprocess_exec(*command)).wait()


def _to_port(port: int) -> Callable[..., Awaitable[None]]:
    return _carrier(lambda: asyncio.open_connection("127.0.0.1", port))


def _to_socket(path: str) -> Callable[..., Awaitable[None]]:
    return _carrier(lambda: asyncio.open_unix_connection(path))


def _carrier(dial: Callable[[], Awaitable[Ends]]) -> Callable[..., Awaitable[None]]:
    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            there, out = await dial()
        except OSError:
            writer.close()
            return
        await asyncio.gather(_copy(reader, out), _copy(there, writer))

    return carry


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    try:
        while data := await source.read(1 << 16):
            target.write(data)
            await target.drain()
    except OSError:
        pass
    finally:
        target.close()


def main(side: str, *words: str) -> int:
    """Read the command line, and serve."""
    end = words.index("--") if side == "in" else len(words)
    ways = [(path, int(port)) for path, port in zip(words[:end:2], words[1:end:2], strict=True)]
    if side == "out":
        asyncio.run(let_out(ways))
    return asyncio.run(run_inside(ways, list(words[end + 1 :])))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
