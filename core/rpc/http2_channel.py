"""Client of calls over Towline's own HTTP/2, optionally through an HTTP CONNECT proxy."""

import asyncio
import ssl
from dataclasses import dataclass, field
from functools import lru_cache

from core.errors import Invalid, Unavailable
from core.http1.proxy_connect import connect_directly, connect_through_proxy
from core.http2.connection import Http2Connection, Http2Limits
from core.http2.frames import ErrorCode
from core.http2.stream import Headers
from core.rpc.calls import CallFailed, CallStatus, Metadata
from core.rpc.http2_call import CONTENT_TYPE, READ_WINDOW, TRUSTED_FRAME, ClientCall
from core.rpc.sockets import ALPN, Http2SocketProtocol, OpenConnections
from core.runtime.clock import Clock
from core.runtime.tasks import Tasks
from core.runtime.trust_files import Version, file_versions, system_authorities
from core.tls import client_context

_CONNECT_SECONDS = 20.0
_QUIET_SECONDS, _ANSWER_SECONDS = 120.0, 20.0
_MAX_MESSAGE_BYTES = 16 << 20
_NO_CERTIFICATES = "the trusted CA file contains no readable certificates"
_CLOSED = "the client has closed the connection"


@dataclass(frozen=True, slots=True)
class CallTarget:
    """Address and TLS settings of a server.

    `tls` is None for plain TCP. The certificate must be valid for `server_name` (default: the
    host). `proxy` is the URL of a CONNECT proxy, or empty.
    """

    host: str
    port: int
    tls: ssl.SSLContext | None = None
    server_name: str | None = None
    proxy: str = field(default="", repr=False)

    @property
    def authority(self) -> str:
        """Value of the `:authority` header."""
        host = self.server_name or self.host
        return f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"


def client_tls(ca: bytes | None) -> ssl.SSLContext:
    """Returns a TLS context that trusts this PEM, or the system's CAs as they are on disk now.

    Invalid: a bad PEM.
    """
    return _client_tls(ca, file_versions(() if ca else system_authorities()))


@lru_cache(maxsize=8)
def _client_tls(ca: bytes | None, _: tuple[Version, ...]) -> ssl.SSLContext:
    if ca is not None and not ca.strip():
        raise Invalid(_NO_CERTIFICATES)
    try:
        tls = client_context(text=ca.decode("ascii", "replace") if ca else None)
    except (ssl.SSLError, TypeError) as error:
        raise Invalid(_NO_CERTIFICATES) from error
    # As in grpcio: trust also intermediate CAs.
    tls.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    tls.minimum_version = ssl.TLSVersion.TLSv1_2
    tls.set_alpn_protocols([ALPN])
    return tls


class Http2Channel:
    """Implements `core.rpc.calls.CallChannel`; `connection` is the one for new calls, if any."""

    def __init__(self, target: CallTarget, clock: Clock) -> None:
        self._target, self._clock = target, clock
        self.connection: Http2Connection | None = None
        self._open = OpenConnections()
        self._dial_lock = asyncio.Lock()
        self._tasks = Tasks("channel")
        self._is_closed = False

    async def call(self, path: str, metadata: Metadata) -> ClientCall:
        connection = self.connection
        if connection is None or not connection.usable:
            connection = await self._ensure_connected()
        stream = connection.open(_request_headers(path, self._target, metadata))
        return ClientCall(stream, self._target.authority, _MAX_MESSAGE_BYTES)

    async def close(self) -> None:
        self._is_closed = True
        for connection in self._open:
            connection.fail(ErrorCode.NO_ERROR, _CLOSED)
        await self._open.close()
        await self._tasks.stop()

    async def _ensure_connected(self) -> Http2Connection:
        """Connects once for all waiting calls."""
        async with self._dial_lock:
            if self.connection is None or not self.connection.usable:
                if self._is_closed:
                    raise CallFailed(CallStatus.UNAVAILABLE, _CLOSED)
                connection = await self._dial()
                if self._is_closed:
                    connection.fail(ErrorCode.NO_ERROR, _CLOSED)
                    raise CallFailed(CallStatus.UNAVAILABLE, _CLOSED)
                self.connection = connection
                self._tasks.spawn("watch", self._ping_when_silent(connection))
            return self.connection

    async def _dial(self) -> Http2Connection:
        target = self._target
        try:
            async with asyncio.timeout(_CONNECT_SECONDS):
                return await self._open_connection()
        except TimeoutError:
            reason = f"no answer within {_CONNECT_SECONDS:.0f} s"
        except ssl.SSLCertVerificationError as error:
            reason = f"its certificate is not valid: {error.verify_message}"
        except UnicodeError:
            reason = "this is not a host name"
        except (OSError, Unavailable) as error:
            reason = str(error) or "the connection was lost at once"
        raise CallFailed(CallStatus.UNAVAILABLE, f"{target.host}:{target.port}: {reason}")

    async def _open_connection(self) -> Http2Connection:
        target, loop = self._target, asyncio.get_running_loop()
        name = (target.server_name or target.host) if target.tls else None
        if target.proxy:
            raw = await connect_through_proxy(target.proxy, target.host, target.port)
        else:
            raw = await connect_directly(target.host, target.port)
        _, opened = await loop.create_connection(
            self._make_protocol, sock=raw, ssl=target.tls, server_hostname=name
        )
        if opened.connection.closed:
            raise Unavailable(opened.connection.reason)
        return opened.connection

    def _make_protocol(self) -> Http2SocketProtocol:
        return Http2SocketProtocol(self._start_connection, self._open.discard)

    def _start_connection(self, transport: asyncio.Transport) -> Http2Connection:
        limits = Http2Limits(window=READ_WINDOW, frame=TRUSTED_FRAME)
        connection = Http2Connection(transport, self._clock, limits)
        self._open.add(connection, transport)
        return connection

    async def _ping_when_silent(self, connection: Http2Connection) -> None:
        """Pings a silent server, and fails the connection if it does not answer."""
        while not connection.closed:
            frames_before = connection.frames_in
            await self._clock.sleep(_QUIET_SECONDS)
            if frames_before == connection.frames_in:
                connection.ping()
                await self._clock.sleep(_ANSWER_SECONDS)
                if frames_before == connection.frames_in:
                    connection.fail(ErrorCode.NO_ERROR, "the server does not answer")


def _request_headers(path: str, target: CallTarget, metadata: Metadata) -> Headers:
    return [
        (":method", "POST"),
        (":scheme", "https" if target.tls else "http"),
        (":path", path),
        (":authority", target.authority),
        ("te", "trailers"),
        ("content-type", CONTENT_TYPE),
        ("user-agent", "towline"),
        *metadata,
    ]
