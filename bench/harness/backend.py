"""HTTP backend of all measured systems: `python -m bench.harness.backend`.

GET /small (2 KB), /bytes?n= (random), /list?n= (JSON of an API server's list), /watch?rate=
(chunked; each event has its monotonic time in ns), /hang (chunked, without further data), /echo
(101, then echoes all bytes), POST /sink. Paths may have any prefix.
"""

import asyncio
import json
import random
import time
from typing import cast
from urllib.parse import parse_qs, urlsplit

import uvloop

from bench.harness.programs import announce

SMALL = b"HTTP/1.1 200 OK\r\nContent-Length: 2048\r\nContent-Type: application/json\r\n\r\n" + (
    b"x" * 2048
)
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: application/json\r\n\r\n"
SWITCH = b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: SPDY/3.1\r\n\r\n"
PIECE = random.Random(1).randbytes(256 << 10)
PADDING = "p" * 160


def _pod_list(size: int) -> bytes:
    """List of pods as from an API server, with distinct names and times."""
    choice = random.Random(2)
    text = b""
    while len(text) < size:
        name = f"web-{choice.randrange(16**9):09x}-{choice.randrange(16**5):05x}"
        uid = f"{choice.randrange(16**32):032x}"
        text += json.dumps(
            {
                "metadata": {
                    "name": name,
                    "namespace": choice.choice(["shop", "billing", "kube-system"]),
                    "uid": uid,
                    "resourceVersion": str(choice.randrange(10**8)),
                    "creationTimestamp": f"2026-01-{choice.randrange(28) + 1:02}T10:00:00Z",
                    "labels": {"app": "web", "pod-template-hash": name[4:13]},
                },
                "spec": {"containers": [{"name": "web", "image": "registry.example/web:1.2.3"}]},
                "status": {"phase": "Running", "podIP": f"10.0.{choice.randrange(256)}.7"},
            }
        ).encode()
    return text[:size]


POD_LIST = _pod_list(256 << 10)


class Backend(asyncio.Protocol):
    """Serves the requests of one connection in sequence."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._pending = b""
        self._body = PIECE
        self._unsent = self._unread_upload = 0
        self._raw = self._paused = False
        self._timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def pause_writing(self) -> None:
        self._paused = True
        if self._raw:
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._raw:
            self._transport.resume_reading()
        self._send_body()

    def data_received(self, data: bytes) -> None:
        if self._raw:
            self._transport.write(data)
            return
        self._pending += data
        while self._pending and self._process_pending():
            pass

    def _process_pending(self) -> bool:
        """Consumes one request head, or a part of a body, from the buffer."""
        if self._unread_upload:
            taken = min(self._unread_upload, len(self._pending))
            self._unread_upload -= taken
            self._pending = self._pending[taken:]
            if not self._unread_upload:
                self._transport.write(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n")
            return True
        head, end, rest = self._pending.partition(b"\r\n\r\n")
        if not end:
            return False
        self._pending = rest
        self._respond(head)
        return True

    def _respond(self, head: bytes) -> None:
        target = head.split(b" ", 2)[1].decode()
        url = urlsplit(target)
        query = {name: float(values[0]) for name, values in parse_qs(url.query).items()}
        match url.path.rpartition("/")[2]:
            case "small":
                self._transport.write(SMALL)
            case "bytes" | "list" as kind:
                self._body = PIECE if kind == "bytes" else POD_LIST
                self._unsent = int(query["n"])
                self._transport.write(
                    b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % self._unsent
                )
                self._send_body()
            case "watch":
                self._transport.write(CHUNKED)
                self._send_event(1 / query["rate"], time.monotonic())
            case "hang":
                self._transport.write(CHUNKED)
            case "echo":
                self._raw = True
                self._transport.write(SWITCH)
            case "sink":
                lower = head.lower()
                length = lower.split(b"content-length:")[1].split(b"\r\n")[0]
                self._unread_upload = int(length)
            case _:
                self._transport.write(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")

    def _send_body(self) -> None:
        while self._unsent and not self._paused and not self._transport.is_closing():
            size = min(self._unsent, len(self._body))
            self._unsent -= size
            self._transport.write(self._body[:size])

    def _send_event(self, interval: float, due: float) -> None:
        event = f'{{"t":{time.monotonic_ns()},"p":"{PADDING}"}}\n'.encode()
        self._transport.write(b"%x\r\n%s\r\n" % (len(event), event))
        due += interval
        wait = max(0.0, due - time.monotonic())
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(wait, self._send_event, interval, due)


async def main() -> None:
    """Serves until killed."""
    server = await asyncio.get_running_loop().create_server(Backend, "127.0.0.1", 0, backlog=4096)
    announce(server.sockets[0].getsockname()[1])
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(main())
