"""Server of calls over Towline's own HTTP/2, for clients of any gRPC library."""

import asyncio
import socket
import ssl
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import structlog

from core.errors import TowlineError, Unauthenticated
from core.http2.connection import Http2Connection, Http2Limits
from core.http2.stream import Headers, Http2Stream
from core.rpc.calls import (
    INTERNAL_FAILURE,
    CallStatus,
    CertificateFiles,
    Handler,
    ServerLimits,
    status_of,
)
from core.rpc.http2_call import CONTENT_TYPE, ServerCall
from core.rpc.native_tls import NativeTlsServer
from core.rpc.sockets import (
    ALPN,
    BridgedPeers,
    Http2SocketProtocol,
    OpenConnections,
    own_address,
)
from core.runtime.clock import Clock
from core.runtime.proxy_protocol_server import ProxyProtocolServer, TlsServer
from core.runtime.tasks import Tasks
from core.trusted_proxies import TrustedProxies

log = structlog.get_logger(__name__)

_BACKLOG = 1024
_SHUTTING_DOWN = "the control plane is shutting down"
# Some clients never answer the TLS close notification, for example grpcio.
TLS_SHUTDOWN_SECONDS = 5.0
# Unauthenticated calls on one connection before the client must reconnect.
_MAX_UNAUTHENTICATED_CALLS = 100


@dataclass(slots=True, eq=False)
class _Client:
    """The client of a connection.

    `last_call_at` is the time of its last open call. `running` is the number of its running
    handlers, also of calls that were cut off.
    """

    peer: str
    last_call_at: float
    unauthenticated: int = 0
    running: int = 0

    @property
    def source(self) -> str:
        """Address of the client, without its port."""
        return self.peer.rpartition(":")[0]


class Http2Server:
    """Implements `core.rpc.calls.CallServer`; rejects calls without a handler before their data.

    `bridged` names the clients of another listener that passes on their connections.
    `proxy_protocol` are the load balancers that name their clients with the PROXY protocol.
    `native_tls`: TLS is that of the native module.
    """

    def __init__(
        self,
        handlers: Mapping[str, Handler],
        limits: ServerLimits,
        clock: Clock,
        bridged: BridgedPeers | None = None,
        proxy_protocol: TrustedProxies | None = None,
        *,
        native_tls: bool = False,
    ) -> None:
        self.direct = ("", 0)
        self._handlers, self._limits, self._clock = handlers, limits, clock
        self._connection_limits = Http2Limits(streams=limits.calls)
        self._bridged = bridged or BridgedPeers()
        self._open = OpenConnections()
        self._clients: dict[Http2Connection, _Client] = {}
        self._unanswered: defaultdict[str, dict[Http2Connection, None]] = defaultdict(dict)
        self._calls = Tasks("calls")
        self._upkeep = Tasks("agents' listener")
        self._server: asyncio.Server | None = None
        self._proxy_protocol = proxy_protocol
        self._proxy_protocol_server: ProxyProtocolServer | None = None
        self._native: NativeTlsServer | None = None
        if native_tls:
            self._native = NativeTlsServer(self._make_protocol, proxy_protocol, limits.idle_seconds)
        self._is_stopping = False

    async def start(
        self, address: tuple[str, int], certificate_files: CertificateFiles | None
    ) -> int:
        self._upkeep.forever("idle", self._close_idle())
        if self._native is not None and certificate_files is not None:
            port = await self._native.start(address, certificate_files, _BACKLOG)
            self.direct = self._native.direct
        else:
            port = await self._listen(
                address, _server_tls(certificate_files) if certificate_files else None
            )
            self.direct = (own_address(address[0]), port)
        return port

    async def _listen(self, address: tuple[str, int], tls: ssl.SSLContext | None) -> int:
        if self._proxy_protocol is not None:
            return self._start_proxied(address, tls, self._proxy_protocol)
        self._server = await asyncio.get_running_loop().create_server(
            self._make_protocol,
            address[0],
            address[1],
            backlog=_BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=self._limits.idle_seconds if tls else None,
            ssl_shutdown_timeout=TLS_SHUTDOWN_SECONDS if tls else None,
        )
        return self._server.sockets[0].getsockname()[1]

    def _start_proxied(
        self, address: tuple[str, int], tls: ssl.SSLContext | None, senders: TrustedProxies
    ) -> int:
        family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        listening = socket.create_server(address, family=family, backlog=_BACKLOG)
        tls_server = (
            TlsServer(tls, self._limits.idle_seconds, TLS_SHUTDOWN_SECONDS) if tls else None
        )
        self._proxy_protocol_server = ProxyProtocolServer(
            listening, self._make_protocol, senders, tls_server, self._bridged
        )
        self._proxy_protocol_server.start()
        return listening.getsockname()[1]

    async def stop(self, grace: float = 0.0) -> None:
        self._is_stopping = True
        if self._server is not None:
            self._server.close()
        if self._proxy_protocol_server is not None:
            await self._proxy_protocol_server.stop()
        if self._native is not None:
            self._native.stop()
        for connection in self._open:
            connection.go_away(_SHUTTING_DOWN)
        await self._open.wait_closed(grace)
        await self._calls.stop()
        await self._upkeep.stop()
        await self._open.close()

    # A connection

    def _make_protocol(self) -> Http2SocketProtocol:
        return Http2SocketProtocol(self._start_connection, self._remove_connection)

    def _start_connection(self, transport: asyncio.Transport) -> Http2Connection:
        client = _Client(self._bridged.peer_of(transport), self._clock.monotonic())

        connection = Http2Connection(transport, self._clock, self._connection_limits, self._accept)
        self._open.add(connection, transport)
        self._clients[connection] = client
        self._add_unanswered(connection, client.source)
        if self._is_stopping:
            # Its TLS handshake ended after the shutdown began.
            transport.abort()
        return connection

    def _remove_connection(self, connection: Http2Connection) -> None:
        self._open.discard(connection)
        self._remove_unanswered(connection, self._clients.pop(connection).source)

    def _add_unanswered(self, connection: Http2Connection, source: str) -> None:
        """Ends the oldest connection of a source that has too many without a response."""
        unanswered = self._unanswered[source]
        unanswered[connection] = None
        if len(unanswered) > self._limits.unanswered:
            oldest = next(iter(unanswered))
            self._remove_unanswered(oldest, source)
            self._open.abort(oldest)

    def _remove_unanswered(self, connection: Http2Connection, source: str) -> None:
        unanswered = self._unanswered[source]
        unanswered.pop(connection, None)
        if not unanswered:
            del self._unanswered[source]

    async def _close_idle(self) -> None:
        """Closes connections without a recent call."""
        max_idle = self._limits.idle_seconds
        while True:
            await self._clock.sleep(max_idle / 4)
            if self._native is not None:
                self._native.log_refused()
            now = self._clock.monotonic()
            for connection, client in tuple(self._clients.items()):
                if connection.streams:
                    client.last_call_at = now
                elif connection.closed and now - client.last_call_at >= max_idle:
                    # The client does not read its remaining data.
                    self._open.abort(connection)
                elif now - client.last_call_at >= max_idle:
                    connection.go_away("no recent call")

    # A call

    def _accept(self, connection: Http2Connection, stream: Http2Stream, headers: Headers) -> None:
        client = self._clients[connection]
        values = dict(headers)
        metadata = {name: value for name, value in values.items() if not name.startswith(":")}
        on_first_response = partial(self._remove_unanswered, connection, client.source)
        call = ServerCall(stream, client.peer, metadata, self._limits.message, on_first_response)
        if values.get(":method") != "POST":
            call.refuse("405")
        elif not metadata.get("content-type", "").startswith(CONTENT_TYPE):
            call.refuse("415")
        elif (handler := self._handlers.get(values.get(":path", ""))) is None:
            call.finish(CallStatus.UNIMPLEMENTED, "unknown method")
        elif client.running >= self._limits.calls:
            call.finish(CallStatus.RESOURCE_EXHAUSTED, "too many concurrent calls")
        else:
            client.running += 1
            self._calls.spawn("call", self._serve(connection, client, handler, call))

    async def _serve(
        self, connection: Http2Connection, client: _Client, handler: Handler, call: ServerCall
    ) -> None:
        try:
            await handler(call)
        except TowlineError as error:
            call.finish(status_of(error), error.message)
            if isinstance(error, Unauthenticated):
                client.unauthenticated += 1
                if client.unauthenticated >= _MAX_UNAUTHENTICATED_CALLS:
                    connection.go_away("too many unauthenticated calls")
        except asyncio.CancelledError:
            call.finish(CallStatus.UNAVAILABLE, _SHUTTING_DOWN)
            raise
        except Exception:
            log.exception("call failed")
            call.finish(CallStatus.UNKNOWN, INTERNAL_FAILURE)
        else:
            call.finish(CallStatus.OK)
        finally:
            client.running -= 1
            call.release()


def _server_tls(certificate_files: CertificateFiles) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(certificate_files.certificate, certificate_files.key)
    tls.set_alpn_protocols([ALPN])
    return tls
