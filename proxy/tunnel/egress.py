"""Egress through agents: a local CONNECT proxy whose connections end in clusters.
git uses it to reach repositories that only a cluster can reach. Each proxy URL has a credential of
its own that identifies the cluster. The agent's allow-list decides which hosts it connects to.
"""

import asyncio
import base64
import hashlib
import re
import secrets
from collections.abc import Callable
from typing import cast

import structlog

from core.errors import Unavailable
from core.identity import ClusterId
from core.mux.codec import END, FEATURE_TCP, KIND_TCP, Buffer, Open, ProtocolError
from core.runtime.clock import Clock
from core.runtime.connections import half_close
from proxy.ports import AgentRoute, RequestStream

log = structlog.get_logger(__name__)

LEASE_SECONDS = 900.0
HEAD_SECONDS = 10.0
HEAD_BYTES = 8 << 10
WRITE_HIGH, WRITE_LOW = 256 << 10, 64 << 10
HOST = "127.0.0.1"
TENANT = b"egress"
USER = "towline"
_CONNECT = re.compile(rb"CONNECT ([0-9A-Za-z.:\[\]-]{3,300}) HTTP/1\.[01]\r\n")
_CREDENTIAL = re.compile(rb"(?i)\r\nproxy-authorization: *basic +([A-Za-z0-9+/=]+) *\r\n")

FindRoute = Callable[[ClusterId], AgentRoute | None]


class EgressProxy:
    """The CONNECT proxy and its credentials. `find` returns the route to an agent."""

    def __init__(self, clock: Clock, find: FindRoute) -> None:
        self._find, self._clock = find, clock
        self._leases: dict[bytes, tuple[ClusterId, float]] = {}
        self._connections: set[EgressConnection] = set()
        self._server: asyncio.Server | None = None
        self._port = 0

    async def start(self) -> None:
        """Listens on a free port of the loopback interface."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, HOST, 0)
        self._port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stops listening and aborts open connections."""
        if self._server is not None:
            self._server.close()
        for connection in tuple(self._connections):
            connection.abort()

    async def proxy_url(self, cluster_id: ClusterId) -> str:
        """Returns a URL for `http.proxy` that is valid for connections in the next 15 minutes.
        It contains a secret: never put it into arguments or logs. Unavailable: the agent is not
        connected, or its allow-list is empty.
        """
        self._route(cluster_id)
        now = self._clock.monotonic()
        self._leases = {
            key: leased_cluster
            for key, leased_cluster in self._leases.items()
            if leased_cluster[1] > now
        }
        secret = secrets.token_urlsafe(24)
        self._leases[_digest(secret.encode())] = (cluster_id, now + LEASE_SECONDS)
        return f"http://{USER}:{secret}@{HOST}:{self._port}"

    def open_tcp(
        self, owner: "EgressConnection", cluster_id: ClusterId, target: bytes
    ) -> RequestStream:
        """Opens a stream to `host:port` from the cluster's agent.
        The first bytes of the stream are the response to CONNECT; a refusal is a reset with the
        HTTP status. Unavailable: no route to the agent.
        """
        request = Open(target, b"", secrets.token_bytes(16), kind=KIND_TCP)
        return self._route(cluster_id).open(owner, request, tenant=TENANT)

    def leased_cluster(self, credential: bytes) -> ClusterId | None:
        """Returns the cluster of a Basic credential while it is valid."""
        user, _, secret = credential.partition(b":")
        cluster_id, expiry = self._leases.get(_digest(secret), (None, 0.0))
        is_valid = user == USER.encode() and self._clock.monotonic() < expiry
        return cluster_id if is_valid else None

    def _route(self, cluster_id: ClusterId) -> AgentRoute:
        route = self._find(cluster_id)
        if route is None or not route.accepts_streams:
            raise Unavailable("the agent of the egress cluster is not connected")
        if not route.features & FEATURE_TCP:
            raise Unavailable(
                "the agent of the egress cluster allows no hosts (setting egress.allow)"
            )
        return route

    def _accept(self) -> "EgressConnection":
        return EgressConnection(self, self._connections)


class EgressConnection(asyncio.Protocol):
    """A client connection of the proxy: CONNECT, then bytes both ways. It owns its stream."""

    def __init__(self, egress: EgressProxy, connections: set["EgressConnection"]) -> None:
        self._egress, self._connections = egress, connections
        self._transport: asyncio.Transport
        self._stream: RequestStream | None = None
        self._head = b""
        self._response_begun = self._write_paused = False
        self._unacknowledged = 0
        self._deadline: asyncio.TimerHandle

    # Callbacks of asyncio

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        self._connections.add(self)
        self._deadline = asyncio.get_running_loop().call_later(HEAD_SECONDS, transport.abort)

    def data_received(self, data: bytes) -> None:
        if self._stream is None:
            self._read_head(self._head + data)
        elif not self._stream.send(data):
            self._transport.pause_reading()

    def eof_received(self) -> bool:
        if self._stream is not None:
            self._stream.send(b"", END)
        return self._stream is not None

    def pause_writing(self) -> None:
        self._write_paused = True

    def resume_writing(self) -> None:
        self._write_paused = False
        unacknowledged, self._unacknowledged = self._unacknowledged, 0
        if unacknowledged and self._stream is not None:
            self._stream.consumed(unacknowledged)

    def connection_lost(self, exc: Exception | None) -> None:
        self._deadline.cancel()
        self._connections.discard(self)
        stream, self._stream = self._stream, None
        if stream is not None:
            stream.reset()

    def abort(self) -> None:
        """Aborts the connection."""
        self._transport.abort()

    # Events of the stream (see `core.mux.stream.StreamOwner`)

    def on_data(self, data: Buffer) -> None:
        self._response_begun = True
        self._transport.write(data)
        if self._write_paused:
            self._unacknowledged += len(data)
        elif self._stream is not None:
            self._stream.consumed(len(data))

    def on_end(self, close: bool) -> None:
        if self._stream is not None and self._stream.sent_end:
            self._transport.close()
        else:
            half_close(self._transport)

    def on_writable(self) -> None:
        self._transport.resume_reading()

    def on_reset(self, code: int, text: str) -> None:
        self._stream = None
        if self._response_begun:
            self._transport.abort()
        else:
            self._refuse(code if 400 <= code < 600 else 502, text or "reset the connection")

    # Inside

    def _read_head(self, head: bytes) -> None:
        self._head = head
        if b"\r\n\r\n" not in head and len(head) <= HEAD_BYTES:
            return
        self._deadline.cancel()
        head, _, remainder = head.partition(b"\r\n\r\n")
        request = _CONNECT.match(head + b"\r\n")
        if request is None or len(head) > HEAD_BYTES:
            self._refuse(400, "this proxy supports only CONNECT host:port")
            return
        cluster_id = self._egress.leased_cluster(_credential(head + b"\r\n"))
        if cluster_id is None:
            self._refuse(407, "the proxy's credential is unknown or has expired")
            return
        self._open(cluster_id, request[1], remainder)

    def _open(self, cluster_id: ClusterId, target: bytes, remainder: bytes) -> None:
        try:
            stream = self._stream = self._egress.open_tcp(self, cluster_id, target)
        except Unavailable as error:
            self._refuse(503, error.message)
        except ProtocolError as error:
            self._refuse(503, str(error))
        else:
            self._head = b""
            if remainder:
                stream.send(remainder)

    def _refuse(self, status: int, text: str) -> None:
        log.info("egress refused", status=status, why=text)
        reason_phrase = text.replace("\r", " ").replace("\n", " ").encode("ascii", "replace")
        fields = b'Proxy-Authenticate: Basic realm="towline"\r\n' if status == 407 else b""
        self._transport.write(
            b"HTTP/1.1 %d %s\r\n%sContent-Length: 0\r\nConnection: close\r\n\r\n"
            % (status, reason_phrase, fields)
        )
        self._transport.close()


def _credential(head: bytes) -> bytes:
    match = _CREDENTIAL.search(head)
    try:
        return base64.b64decode(match[1]) if match else b""
    except ValueError:
        return b""


def _digest(secret: bytes) -> bytes:
    """Hashes a secret, so that leases do not store it."""
    return hashlib.sha256(secret).digest()
