"""A user's connection: requests one after the other, each authorized separately."""

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

from uvicorn.config import Config
from uvicorn.server import ServerState

from core.mux.codec import Buffer, Open
from core.trusted_proxies import TrustedProxies
from proxy.domain.audit import EndReason
from proxy.domain.limits import HeadLimits
from proxy.gateway.application import Application, ApplicationProtocol, ApplicationRequest
from proxy.gateway.authorize.authorizer import CachedAuthorization
from proxy.gateway.error_response import ErrorResponse, encode
from proxy.gateway.forward.proxied_request import ProxiedRequest
from proxy.gateway.gateway import Gateway
from proxy.gateway.handler import RequestHandler
from proxy.gateway.parse.bad_head import BadHead
from proxy.gateway.parse.cluster_hosts import ClusterHosts
from proxy.gateway.parse.parsed_request import ParsedRequest
from proxy.gateway.parse.parser import ApplicationHead, RequestParser

WRITE_HIGH, WRITE_LOW = 256 << 10, 64 << 10
BACKLOG = 64 << 10
DEAD_PEER_MILLISECONDS = 60_000
_NO_LINGER = struct.pack("ii", 1, 0)
_CREDIT, _FULL, _UNREAD = 1, 2, 4


class UserConnection(asyncio.Protocol):
    """Serves at most one request at a time; further bytes wait.
    After a 101, all bytes belong to that request. No request begins while earlier responses are
    unread, because nothing else would limit their number.
    """

    __slots__ = (
        "_advancing",
        "_application",
        "_application_protocol",
        "_behind_proxy",
        "_closed",
        "_current",
        "_deadline",
        "_gateway",
        "_handler",
        "_in_head",
        "_keep_alive",
        "_last_authorization",
        "_last_parsed",
        "_parser",
        "_pause_reasons",
        "_pending",
        "_proxies",
        "_seconds_left",
        "_source",
        "_transport",
        "_unread_deadline",
        "on_hand_over",
        "on_idle",
        "write_paused",
    )

    def __init__(
        self,
        gateway: Gateway,
        handler: RequestHandler,
        parser: RequestParser,
        application: Application,
        proxies: TrustedProxies,
    ) -> None:
        self.write_paused = False
        self.on_idle: Callable[[], None] = _do_nothing
        self.on_hand_over: Callable[[ProxiedRequest, Open], bool] = _decline
        self._deadline: float | None = None
        self._seconds_left: float | None = None
        self._gateway, self._application = gateway, application
        self._handler, self._parser = handler, parser
        self._proxies, self._behind_proxy = proxies, False
        self._last_parsed: ParsedRequest | None = None
        self._last_authorization: CachedAuthorization | None = None
        self._transport: asyncio.Transport
        self._source = ""
        self._application_protocol: ApplicationProtocol | None = None
        self._current: ProxiedRequest | ApplicationRequest | None = None
        self._unread_deadline = 0.0
        self._pending = b""
        self._pause_reasons = 0
        self._advancing = self._keep_alive = self._in_head = self._closed = False

    @property
    def draining(self) -> bool:
        """Reports whether every response must be the last one of its connection."""
        return self._gateway.draining

    @property
    def proxied_request(self) -> ProxiedRequest | None:
        """The current request to a cluster."""
        return self._current if isinstance(self._current, ProxiedRequest) else None

    @property
    def is_idle(self) -> bool:
        """Reports whether the connection waits for the first byte of a request."""
        awaits_request = self._current is None and not (
            self._pending or self._closed or self.write_paused
        )
        return awaits_request and not self._transport.is_closing()

    @property
    def last_request(self) -> tuple[bytes, ParsedRequest] | None:
        """The last request to a cluster, with the bytes of its head."""
        return self._parser.last_request

    # Callbacks of asyncio and uvicorn

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._transport = transport = cast(asyncio.Transport, transport)
        transport.set_write_buffer_limits(high=WRITE_HIGH, low=WRITE_LOW)
        _set_dead_peer_timeout(transport)
        self._source = _peer_address(transport)
        self._behind_proxy = self._proxies.is_trusted(_host(self._source))
        self._application.register(self)
        if self._gateway.full:
            self._refuse(BadHead(503, "too many connections are open"))
            return
        self._gateway.connections.add(self)
        self._set_deadline(self._gateway.timeouts.idle)

    def data_received(self, data: bytes) -> None:
        self._pending = self._pending + data if self._pending else data
        self._advance()

    def eof_received(self) -> bool:
        stays_open = isinstance(self._current, ProxiedRequest) and self._current.on_user_end()
        # TLS has no half-close: asyncio would log a warning for each user who disconnects.
        return stays_open and self._transport.get_extra_info("sslcontext") is None

    def pause_writing(self) -> None:
        self.write_paused = True
        self._unread_deadline = self._gateway.clock.monotonic() + self._gateway.timeouts.stalled
        if self._application_protocol is not None:
            self._application_protocol.pause_writing()

    def resume_writing(self) -> None:
        self.write_paused = False
        if self._current is None and not self._in_head:
            self._set_deadline(self._gateway.timeouts.idle)
        if self._application_protocol is not None:
            self._application_protocol.resume_writing()
        if (proxied_request := self.proxied_request) is not None:
            proxied_request.drained()
        self._resume(_UNREAD)
        self._advance()

    def connection_lost(self, exc: Exception | None) -> None:
        self._detach()
        if self._application_protocol is not None:
            self._application_protocol.connection_lost(exc)
        if (proxied_request := self.proxied_request) is not None:
            proxied_request.on_user_lost()
        self._current = None

    def shutdown(self) -> None:
        """Handles uvicorn's shutdown: closes an idle connection now, others after their
        response.
        """
        if isinstance(self._current, ApplicationRequest) and self._application_protocol is not None:
            self._application_protocol.shutdown()
        elif self._current is None and not self._pending:
            self._transport.close()

    # Calls of a request (see `proxy.gateway.forward.proxied_request.ClientConnection`)

    def write(self, data: Buffer) -> None:
        if not self._closed:
            self._transport.write(data)

    def abort(self) -> None:
        _reset_on_close(self._transport)
        self._transport.abort()

    def pause_reading(self) -> None:
        self._pause(_CREDIT)

    def resume_reading(self) -> None:
        self._resume(_CREDIT)

    def hand_over(self, request: ProxiedRequest, message: Open) -> bool:
        blocked = bool(self._pending) or self.write_paused or self.draining or self._closed
        return not blocked and self.on_hand_over(request, message)

    def on_forwarded(self) -> None:
        self._resume(_FULL)
        self._advance()

    def on_detached(self) -> None:
        self._current = None
        self.on_response_end(keep_alive=not self.draining)

    def on_response_end(self, *, keep_alive: bool) -> None:
        self._keep_alive = keep_alive
        self._set_deadline(self._gateway.timeouts.idle)
        if not keep_alive or self._closed:
            self._transport.close()
        self._resume(_FULL | _CREDIT)
        self._advance()

    # Deadlines, enforced by the gateway's sweep

    def sweep(self, now: float) -> None:
        """Ends requests and connections past their deadline; an unread response has its own
        deadline.
        """
        if self._seconds_left is not None:
            self._deadline, self._seconds_left = now + self._seconds_left, None
        if self.write_paused:
            if now >= self._unread_deadline:
                self.abort()
        elif self._deadline is not None and now >= self._deadline:
            self._set_deadline(self._gateway.timeouts.answer)
            self._end_late()

    def _end_late(self) -> None:
        proxied_request = self.proxied_request
        if self._transport.is_closing():
            self.abort()
        elif self._in_head and proxied_request is None:
            message = f"the request head did not arrive within {self._gateway.timeouts.head:g} s"
            self._refuse(BadHead(408, message, self._pending))
        elif isinstance(self._current, ApplicationRequest):
            self._end_late_upload(self._current)
        elif proxied_request is None or proxied_request.over:
            self._transport.close()
        elif proxied_request.waiting:
            proxied_request.end(self._timeout_response(proxied_request), EndReason.TIMEOUT)

    def _end_late_upload(self, request: ApplicationRequest) -> None:
        if request.response_begun:
            self._transport.close()
        elif request.waits_for_user:
            self._refuse(BadHead(408, self._late_upload_message()))

    def _late_upload_message(self) -> str:
        seconds = self._gateway.timeouts.answer
        return f"no bytes of the request body have arrived for {seconds:g} s"

    def _timeout_response(self, proxied_request: ProxiedRequest) -> ErrorResponse:
        """Builds the timeout response, which names the side that caused the wait."""
        if proxied_request.request_done or self._pause_reasons or not proxied_request.ready:
            return ErrorResponse(
                504, f'the API server of "{proxied_request.record.handle}" did not answer'
            )
        return ErrorResponse(408, self._late_upload_message())

    # Requests

    def _advance(self) -> None:
        """Passes received bytes to the current request, and begins the next one."""
        if self._advancing:
            return
        self._advancing = True
        try:
            while not self._closed and self._step():
                pass
        finally:
            self._advancing = False
        if self._current is None:
            self.on_idle()

    def _step(self) -> bool:
        current = self._current
        if current is not None and current.over and current.request_done:
            return self._end_request()
        if not self._pending:
            return False
        if current is None:
            return self._begin_when_read()
        if not (current.raw or (current.ready or current.over) and not current.request_done):
            if len(self._pending) > BACKLOG:
                self._pause(_FULL)
            return False
        used = current.receive(self._pending)
        self._pending = self._pending[used:]
        self._set_answer_deadline(current)
        return True

    def _set_answer_deadline(self, request: ProxiedRequest | ApplicationRequest) -> None:
        """Sets the deadline of the request's next bytes. The application may take any time to
        answer.
        """
        self._set_deadline(self._gateway.timeouts.answer)
        if isinstance(request, ApplicationRequest) and request.request_done:
            self._seconds_left = None

    def _end_request(self) -> bool:
        self._current = None
        if not self._keep_alive:
            return False
        self._resume(_FULL | _CREDIT)
        self._set_deadline(self._gateway.timeouts.idle)
        return True

    def _begin_when_read(self) -> bool:
        if self.write_paused:
            self._pause(_UNREAD)
            return False
        return self._begin()

    def _begin(self) -> bool:
        """Begins the request at the start of the pending bytes; False if its head is incomplete."""
        pending = self._pending = self._pending.lstrip(b"\r\n")
        try:
            parsed = self._parser.parse(pending)
        except BadHead as error:
            self._refuse(error)
            return False
        if parsed is None:
            self._await_head()
            return False
        request, self._pending = parsed
        self._deadline, self._seconds_left, self._in_head = None, None, False
        if isinstance(request, ParsedRequest):
            self._begin_request(request)
        else:
            self._begin_application(request)
        return True

    def _await_head(self) -> None:
        if self._pending and not self._in_head:
            self._in_head = True
            self._set_deadline(self._gateway.timeouts.head)

    def _begin_request(self, parsed: ParsedRequest) -> None:
        if parsed is not self._last_parsed:
            self._last_parsed, self._last_authorization = parsed, None
        request = self._handler.new_request(self, parsed, self._client_address(parsed))
        self._current = request
        self._set_deadline(self._gateway.timeouts.answer)
        last = self._last_authorization = self._handler.start_cached(
            request, parsed, self._last_authorization
        )
        if last is None:
            self._gateway.tasks.spawn("request", self._handler.run(request, parsed))
        if parsed.long_running:
            # It would keep its head for hours.
            self._last_parsed = self._last_authorization = None
            self._parser.forget()

    def _client_address(self, parsed: ParsedRequest) -> str:
        """The source of a request: the connection, or the client that a trusted proxy names."""
        if not self._behind_proxy:
            return self._source
        values = parsed.head.values(b"x-forwarded-for")
        forwarded = [value.decode("latin-1") for value in values]
        client = self._proxies.client_address(_host(self._source), forwarded)
        return self._source if client == _host(self._source) else f"{client}:0"

    def _begin_application(self, request: ApplicationHead) -> None:
        if self._application_protocol is None:
            self._application_protocol = self._application.connect(
                self._transport, self._on_application_answer, self._detach
            )
        current = self._current = ApplicationRequest(self._application_protocol, request.head)
        self._set_answer_deadline(current)
        current.start(request.raw)

    def _on_application_answer(self) -> None:
        if isinstance(self._current, ApplicationRequest):
            self._current.over = True
            self._keep_alive = not self._transport.is_closing()
            self._advance()

    def _refuse(self, error: BadHead) -> None:
        """Answers a request that cannot be parsed, and closes the connection. A request for a
        cluster is written to the audit log.
        """
        self._pending = b""
        self._closed = True
        self._handler.refuse_head(error, self._source)
        self._set_deadline(self._gateway.timeouts.idle)
        self._transport.write(encode(ErrorResponse(error.status, error.message), close=True))
        self._transport.close()

    # The socket

    def _detach(self) -> None:
        self._closed = True
        self._application.unregister(self)
        self._gateway.connections.discard(self)

    def _pause(self, reason: int) -> None:
        """Pauses reading, even if already paused: uvicorn resumes it when its application reads."""
        self._transport.pause_reading()
        self._pause_reasons |= reason

    def _resume(self, reason: int) -> None:
        if self._pause_reasons and not self._closed:
            self._pause_reasons &= ~reason
            if not self._pause_reasons:
                self._transport.resume_reading()

    def _set_deadline(self, seconds: float) -> None:
        """Sets the deadline, counted from the next sweep: this runs often and must not read the
        clock.
        """
        self._deadline, self._seconds_left = None, seconds


def _do_nothing() -> None:
    """Handles an event that nobody waits for."""


def _decline(_request: ProxiedRequest, _message: Open) -> bool:
    return False


def _peer_address(transport: asyncio.Transport) -> str:
    name = transport.get_extra_info("peername")
    return f"{name[0]}:{name[1]}" if isinstance(name, tuple) else "local"


def _host(source: str) -> str:
    return source.rpartition(":")[0]


def _set_dead_peer_timeout(transport: asyncio.Transport) -> None:
    """Closes connections whose peer acknowledges nothing for a minute; only Linux has this
    option.
    """
    option = getattr(socket, "TCP_USER_TIMEOUT", None)
    if option is not None and (sock := _tcp_socket(transport)) is not None:
        sock.setsockopt(socket.IPPROTO_TCP, option, DEAD_PEER_MILLISECONDS)


def _tcp_socket(transport: asyncio.Transport) -> socket.socket | None:
    sock = transport.get_extra_info("socket")
    families = {socket.AF_INET, socket.AF_INET6}
    return sock if sock is not None and sock.family in families else None


def _reset_on_close(transport: asyncio.Transport) -> None:
    """Turns the next close into a reset, which no client mistakes for the end of a response."""
    if (sock := _tcp_socket(transport)) is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _NO_LINGER)


def make_protocol_class(
    gateway: Gateway,
    handler: RequestHandler,
    head_limits: HeadLimits,
    public_url: str,
    proxies: TrustedProxies,
    hosts: ClusterHosts,
) -> type[UserConnection]:
    """The protocol class to give to `uvicorn.Config(http=...)`."""

    class GatewayProtocol(UserConnection):
        __slots__ = ()

        def __init__(
            self,
            config: Config,
            server_state: ServerState,
            app_state: dict[str, object],
            _loop: asyncio.AbstractEventLoop | None = None,
        ) -> None:
            application = Application(config, server_state, app_state, _loop)
            parser = RequestParser(head_limits, public_url, hosts)
            super().__init__(gateway, handler, parser, application, proxies)

    return GatewayProtocol
