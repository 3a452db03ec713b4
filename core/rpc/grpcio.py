"""The same calls with grpcio, as a fallback for Towline's own HTTP/2."""

import asyncio
import socket
from collections.abc import Mapping
from typing import Any, Protocol

import grpc
import grpc.aio
import structlog

from core.errors import TowlineError
from core.rpc.calls import (
    INTERNAL_FAILURE,
    CallFailed,
    CallStatus,
    CertificateFiles,
    Handler,
    Metadata,
    ServerLimits,
    status_of,
)
from core.rpc.sockets import own_address

log = structlog.get_logger(__name__)

_STATUS = {code.value[0]: code for code in grpc.StatusCode}
_MAX_MESSAGE_BYTES = 16 << 20
_LOST = "the connection was lost"
# What grpcio says of a write on a call that its core has already ended.
_REFUSED_BY_CORE = "Internal error from Core"
# A call that nobody reads holds back at most this. gRPC's own estimate grows to 16 MB a call.
_WINDOW = (("grpc.http2.bdp_probe", 0), ("grpc.http2.lookahead_bytes", 1 << 20))
# Pings back up the pulses of Sync. They also set TCP_USER_TIMEOUT, so that the kernel detects
# a dead connection within the time-out.
_CHANNEL = (
    *_WINDOW,
    ("grpc.max_receive_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
    ("grpc.keepalive_time_ms", 120_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.enable_retries", 0),
    ("grpc.use_local_subchannel_pool", 1),
)


class _RawCall(Protocol):
    """The common part of a servicer's context and a client's call."""

    async def read(self) -> Any: ...
    async def write(self, message: bytes, /) -> object: ...


class _GrpcioCall:
    """One end of a call of raw bytes."""

    def __init__(self, call: _RawCall, peer: str, metadata: Mapping[str, str]) -> None:
        self.peer, self.metadata = peer, metadata
        self._raw = call

    async def read(self) -> bytes | None:
        try:
            message = await self._raw.read()
        except grpc.aio.AioRpcError as error:
            raise _call_error(error) from error
        except grpc.aio.BaseError as error:
            raise CallFailed(CallStatus.UNAVAILABLE, _LOST) from error
        return message if message is not grpc.aio.EOF else await self._check_end()

    async def write(self, message: bytes) -> None:
        try:
            await self._raw.write(message)
        except grpc.aio.AioRpcError as error:
            raise _call_error(error) from error
        except (grpc.aio.BaseError, asyncio.InvalidStateError) as error:
            raise CallFailed(CallStatus.UNAVAILABLE, _LOST) from error

    async def _check_end(self) -> None:
        return None


class _ClientCall(_GrpcioCall):
    def __init__(self, call: grpc.aio.StreamStreamCall[bytes, bytes]) -> None:
        super().__init__(call, "", {})
        self._call = call

    async def done(self) -> None:
        await self._call.done_writing()

    def cancel(self) -> None:
        self._call.cancel()

    async def _check_end(self) -> None:
        code = await self._call.code()
        if code is not grpc.StatusCode.OK:
            raise CallFailed(CallStatus(code.value[0]), await self._call.details() or "")


class _ServerCall(_GrpcioCall):
    def __init__(self, context: grpc.aio.ServicerContext) -> None:
        metadata = {name: str(value) for name, value in context.invocation_metadata() or ()}
        super().__init__(context, context.peer(), metadata)

    async def done(self) -> None:
        """Does nothing: the end of the handler ends the call."""

    def cancel(self) -> None:
        """Does nothing: the end of the handler ends the call."""


def _call_error(error: grpc.aio.AioRpcError) -> CallFailed:
    if error.code() is grpc.StatusCode.INTERNAL and error.details() == _REFUSED_BY_CORE:
        return CallFailed(CallStatus.UNAVAILABLE, _LOST)
    return CallFailed(CallStatus(error.code().value[0]), error.details() or "")


class GrpcioChannel:
    """Implements `core.rpc.calls.CallChannel` with grpcio.

    `ca` is the PEM of trusted authorities (None: the public ones); `secure=False` turns TLS off.
    `proxy` is the URL of a CONNECT proxy, or empty.
    """

    def __init__(
        self,
        target: str,
        *,
        secure: bool = True,
        ca: bytes | None = None,
        server_name: str | None = None,
        proxy: str = "",
    ) -> None:
        # gRPC itself reads fewer proxy variables than other programs.
        proxy_option = ("grpc.http_proxy", proxy) if proxy else ("grpc.enable_http_proxy", 0)
        options: list[tuple[str, int | str]] = [*_CHANNEL, proxy_option]
        if server_name:
            options.append(("grpc.ssl_target_name_override", server_name))
        if secure:
            credentials = grpc.ssl_channel_credentials(ca)
            self._channel = grpc.aio.secure_channel(target, credentials, options)
        else:
            self._channel = grpc.aio.insecure_channel(target, options)

    async def call(self, path: str, metadata: Metadata) -> _ClientCall:
        return _ClientCall(self._channel.stream_stream(path)(metadata=tuple(metadata)))

    async def close(self) -> None:
        await self._channel.close()


class GrpcioServer:
    """Implements `core.rpc.calls.CallServer` with grpcio."""

    def __init__(self, handlers: Mapping[str, Handler], limits: ServerLimits) -> None:
        self.direct = ("", 0)
        milliseconds = int(limits.idle_seconds * 1000)
        self._server = grpc.aio.server(
            options=(
                *_WINDOW,
                ("grpc.so_reuseport", 0),
                ("grpc.max_receive_message_length", limits.message),
                ("grpc.max_send_message_length", _MAX_MESSAGE_BYTES),
                ("grpc.max_concurrent_streams", limits.calls),
                ("grpc.max_connection_idle_ms", milliseconds),
                ("grpc.server_handshake_timeout_ms", milliseconds),
                # Agents ping an idle connection every 120 s; by default gRPC would disconnect them.
                ("grpc.http2.min_recv_ping_interval_without_data_ms", 30_000),
            )
        )
        self._server.add_generic_rpc_handlers((_Handlers(handlers),))

    async def start(
        self, address: tuple[str, int], certificate_files: CertificateFiles | None
    ) -> int:
        # gRPC reports a failed bind only to its own log, so bind once here to get the error.
        socket.create_server(address).close()
        host_and_port = f"{address[0]}:{address[1]}"
        try:
            if certificate_files is None:
                port = self._server.add_insecure_port(host_and_port)
            else:
                pair = (
                    certificate_files.key.read_bytes(),
                    certificate_files.certificate.read_bytes(),
                )
                credentials = grpc.ssl_server_credentials([pair])
                port = self._server.add_secure_port(host_and_port, credentials)
        except RuntimeError as error:
            raise OSError(f"cannot listen on {host_and_port}") from error
        await self._server.start()
        self.direct = (own_address(address[0]), port)
        return port

    async def stop(self, grace: float = 0.0) -> None:
        await self._server.stop(grace)


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, handlers: Mapping[str, Handler]) -> None:
        self._handlers = handlers

    def service(
        self, handler_call_details: grpc.HandlerCallDetails
    ) -> grpc.RpcMethodHandler | None:
        handler = self._handlers.get(handler_call_details.method)
        return (
            None
            if handler is None
            else grpc.stream_stream_rpc_method_handler(_make_handler(handler))
        )


def _make_handler(handler: Handler) -> Any:
    async def serve(_: object, context: grpc.aio.ServicerContext) -> None:
        try:
            await handler(_ServerCall(context))
        except TowlineError as error:
            await context.abort(_STATUS[status_of(error)], error.message)
        except Exception:
            # Without this, gRPC would send the exception's text to the caller.
            log.exception("call failed")
            await context.abort(grpc.StatusCode.UNKNOWN, INTERNAL_FAILURE)

    return serve
