"""Egress: streams to allowed hosts of this cluster's network."""

import asyncio
import re
from dataclasses import dataclass

import structlog

from core.errors import Invalid
from core.http1.connection import UpstreamConnection
from core.mux.codec import CLOSE, END, Buffer
from core.mux.stream import TunnelStream

log = structlog.get_logger(__name__)

ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
DIAL_SECONDS = 10.0
FORBIDDEN, BAD_GATEWAY = 403, 502
_TARGET = re.compile(r"(\*\.)?([0-9a-z.-]{1,253}|\[[0-9a-f:.]{2,45}\]):([0-9]{1,5})\Z")


@dataclass(frozen=True, slots=True)
class EgressPolicy:
    """Allow-list of `host:port` for the control plane; `*.example.org:443` covers all hosts below
    it.
    """

    allowed: frozenset[str] = frozenset()

    @classmethod
    def parse(cls, text: str) -> "EgressPolicy":
        """Parses a comma-separated list. Invalid: an entry is not a host with a port."""
        entries = [item.strip().lower() for item in text.split(",") if item.strip()]
        for entry in entries:
            if not _TARGET.match(entry):
                raise Invalid(f"{entry!r} is not host:port", field="egress.allow")
        return cls(frozenset(entries))

    def target(self, text: bytes) -> tuple[str, int] | None:
        """Returns host and port to dial if they are allowed."""
        name = text.decode("ascii", "replace").lower()
        match = _TARGET.match(name)
        if match is None or match[1]:
            return None
        parents = match[2].split(".")
        wildcards = {
            f"*.{'.'.join(parents[start:])}:{match[3]}" for start in range(1, len(parents))
        }
        if not self.allowed & (wildcards | {name}):
            return None
        return match[2].strip("[]"), int(match[3])


class EgressStream:
    """Owner of a stream, and user of its connection."""

    def __init__(self, stream: TunnelStream, target: tuple[str, int]) -> None:
        self._stream, self._target = stream, target
        self._connection: UpstreamConnection | None = None
        self._waiting: list[Buffer] = []
        self._unacknowledged = 0
        self._ended = self._connection_closed = False

    async def start(self) -> None:
        """Connects, and responds as a CONNECT proxy does."""
        host, port = self._target
        try:
            async with asyncio.timeout(DIAL_SECONDS):
                _, connection = await asyncio.get_running_loop().create_connection(
                    lambda: UpstreamConnection(_ignore), host, port
                )
        except TimeoutError:
            self._stream.reset(
                BAD_GATEWAY, f"cannot reach {host}:{port}: no response within {DIAL_SECONDS:g} s"
            )
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            self._stream.reset(BAD_GATEWAY, f"cannot reach {host}:{port}: {reason}")
        else:
            self._begin(connection)

    def _begin(self, connection: UpstreamConnection) -> None:
        if self._stream.closed:
            connection.abort()
            return
        self._connection = connection
        connection.user = self
        self._stream.send(ESTABLISHED)
        waiting, self._waiting = self._waiting, []
        for data in waiting:
            self._write(connection, data)
        if self._ended:
            connection.write_eof()

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        if self._connection is not None:
            self._write(self._connection, data)
        elif self._connection_closed:
            self._stream.consumed(len(data))
        else:
            self._waiting.append(data)

    def on_end(self, close: bool) -> None:
        self._ended = True
        if self._connection is not None:
            self._connection.write_eof()

    def on_writable(self) -> None:
        if self._connection is not None:
            self._connection.resume_reading()

    def on_reset(self, code: int, text: str) -> None:
        self._waiting.clear()
        if self._connection is not None:
            self._connection.abort()
            self._connection = None

    # Events of the connection (see `core.http1.connection.ConnectionUser`)

    def on_upstream_data(self, data: bytes) -> None:
        if not self._stream.send(data) and self._connection is not None:
            self._connection.pause_reading()

    def on_upstream_closed(self) -> None:
        self._connection, self._connection_closed = None, True
        self._stream.send(b"", END | CLOSE)

    def on_upstream_drained(self) -> None:
        unacknowledged, self._unacknowledged = self._unacknowledged, 0
        if unacknowledged:
            self._stream.consumed(unacknowledged)

    def _write(self, connection: UpstreamConnection, data: Buffer) -> None:
        connection.write(data)
        if connection.write_paused:
            self._unacknowledged += len(data)
        else:
            self._stream.consumed(len(data))


def _ignore(_: UpstreamConnection) -> None:
    """Does nothing: these connections are not reused."""
