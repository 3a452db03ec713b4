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
_STOPS = "the control plane is shutting down"
# Some clients never answer the TLS close notification, for example grpcio.
_PART_SECONDS = 5.0
# Unauthenticated calls on one connection before the client must reconnect.
_MAX_UNAUTHENTICATED_CALLS = 100


@dataclass(slots=True, eq=False)
class _Caller:
    """The client of a connection.

    `called` is the time of its last open call, `served` the number of its running handlers, also
    of calls that were cut off.
    """

    peer: str
    called: float
    refused: int = 0
    served: int = 0

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
        self._callers: dict[Http2Connection, _Caller] = {}
        self._unanswered: defaultdict[str, dict[Http2Connection, None]] = defaultdict(dict)
        self._calls = Tasks("calls")
        self._upkeep = Tasks("agents' listener")
        self._server: asyncio.Server | None = None
        self._proxy_protocol = proxy_protocol
        self._proxied: ProxyProtocolServer | None = None
        self._native: NativeTlsServer | None = None
        if native_tls:
            self._native = NativeTlsServer(self._socket, proxy_protocol, limits.idle_seconds)
        self._stopping = False

    async def start(self, where: tuple[str, int], certified: CertificateFiles | None) -> int:
        self._upkeep.forever("idle", self._end_idle())
        if self._native is not None and certified is not None:
            port = await self._native.start(where, certified, _BACKLOG)
            self.direct = self._native.direct
        else:
            port = await self._listen(where, _tls(certified) if certified else None)
            self.direct = (own_address(where[0]), port)
        return port

    async def _listen(self, where: tuple[str, int], tls: ssl.SSLContext | None) -> int:
        if self._proxy_protocol is not None:
            return self._start_proxied(where, tls, self._proxy_protocol)
        self._server = await asyncio.get_running_loop().create_server(
            self._socket,
            where[0],
            where[1],
            backlog=_BACKLOG,
            ssl=tls,
            ssl_handshake_timeout=self._limits.idle_seconds if tls else None,
            ssl_shutdown_timeout=_PART_SECONDS if tls else None,
        )
        return self._server.sockets[0].getsockname()[1]

    def _start_proxied(
        self, where: tuple[str, int], tls: ssl.SSLContext | None, senders: TrustedProxies
    ) -> int:
        family = socket.AF_INET6 if ":" in where[0] else socket.AF_INET
        listening = socket.create_server(where, family=family, backlog=_BACKLOG)
        secured = TlsServer(tls, self._limits.idle_seconds, _PART_SECONDS) if tls else None
        self._proxied = ProxyProtocolServer(
            listening, self._socket, senders, secured, self._bridged
        )
        self._proxied.start()
        return listening.getsockname()[1]

    async def stop(self, grace: float = 0.0) -> None:
        self._stopping = True
        if self._server is not None:
            self._server.close()
        if self._proxied is not None:
            await self._proxied.stop()
        if self._native is not None:
            self._native.stop()
        for connection in self._open:
            connection.go_away(_STOPS)
        await self._open.emptied(grace)
        await self._calls.stop()
        await self._upkeep.stop()
        await self._open.close()

    # A connection

    def _socket(self) -> Http2SocketProtocol:
        return Http2SocketProtocol(self._begin, self._forget)

    def _begin(self, transport: asyncio.Transport) -> Http2Connection:
        caller = _Caller(self._bridged.peer_of(transport), self._clock.monotonic())

        connection = Http2Connection(transport, self._clock, self._connection_limits, self._accept)
        self._open.add(connection, transport)
        self._callers[connection] = caller
        self._note_unanswered(connection, caller.source)
        if self._stopping:
            # Its TLS handshake ended after the shutdown began.
            transport.abort()
        return connection

    def _forget(self, connection: Http2Connection) -> None:
        self._open.discard(connection)
        self._note_answered(connection, self._callers.pop(connection).source)

    def _note_unanswered(self, connection: Http2Connection, source: str) -> None:
        """Ends the oldest connection of a source that has too many without a response."""
        unanswered = self._unanswered[source]
        unanswered[connection] = None
        if len(unanswered) > self._limits.unanswered:
            oldest = next(iter(unanswered))
            self._note_answered(oldest, source)
            self._open.cut(oldest)

    def _note_answered(self, connection: Http2Connection, source: str) -> None:
        unanswered = self._unanswered[source]
        unanswered.pop(connection, None)
        if not unanswered:
            del self._unanswered[source]

    async def _end_idle(self) -> None:
        """Closes connections without a recent call."""
        longest = self._limits.idle_seconds
        while True:
            await self._clock.sleep(longest / 4)
            if self._native is not None:
                self._native.log_refused()
            now = self._clock.monotonic()
            for connection, caller in tuple(self._callers.items()):
                if connection.streams:
                    caller.called = now
                elif connection.closed and now - caller.called >= longest:
                    # The client does not read its remaining data.
                    self._open.cut(connection)
                elif now - caller.called >= longest:
                    connection.go_away("no recent call")

    # A call

    def _accept(self, connection: Http2Connection, stream: Http2Stream, headers: Headers) -> None:
        caller = self._callers[connection]
        values = dict(headers)
        metadata = {name: value for name, value in values.items() if not name.startswith(":")}
        answered = partial(self._note_answered, connection, caller.source)
        call = ServerCall(stream, caller.peer, metadata, self._limits.message, answered)
        if values.get(":method") != "POST":
            call.refuse("405")
        elif not metadata.get("content-type", "").startswith(CONTENT_TYPE):
            call.refuse("415")
        elif (handler := self._handlers.get(values.get(":path", ""))) is None:
            call.finish(CallStatus.UNIMPLEMENTED, "unknown method")
        elif caller.served >= self._limits.calls:
            call.finish(CallStatus.RESOURCE_EXHAUSTED, "too many concurrent calls")
        else:
            caller.served += 1
            self._calls.spawn("call", self._serve(connection, caller, handler, call))

    async def _serve(
        self, connection: Http2Connection, caller: _Caller, handler: Handler, call: ServerCall
    ) -> None:
        try:
            await handler(call)
        except TowlineError as error:
            call.finish(status_of(error), error.message)
            if isinstance(error, Unauthenticated):
                caller.refused += 1
                if caller.refused >= _MAX_UNAUTHENTICATED_CALLS:
                    connection.go_away("too many unauthenticated calls")
        except asyncio.CancelledError:
            call.finish(CallStatus.UNAVAILABLE, _STOPS)
            raise
        except Exception:
            log.exception("call failed")
            call.finish(CallStatus.UNKNOWN, INTERNAL_FAILURE)
        else:
            call.finish(CallStatus.OK)
        finally:
            caller.served -= 1
            call.release()


def _tls(certified: CertificateFiles) -> ssl.SSLContext:
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.load_cert_chain(certified.certificate, certified.key)
    tls.set_alpn_protocols([ALPN])
    return tls
