"""A user's connection that the native hub passes on over a Unix socket."""

import asyncio
import re
from collections.abc import Callable
from typing import Any, cast

from core.mux.codec import Buffer, Open
from core.native import NativeHub
from core.runtime.transports import ForwardedTransport
from proxy.fast_path.splices import ConnectionPosition, SplicedRequests
from proxy.gateway.connection import UserConnection
from proxy.gateway.forward.proxied_request import ProxiedRequest

_PREFACE = re.compile(rb"([0-9]{1,20}) (https?) ([0-9a-f.:]{2,45}) ([0-9]{1,5})\n")
_MAX_PREFACE = 100


class PassedTransport(ForwardedTransport):
    """The Unix socket, with the address of the user. A reset of the user's connection is a call
    of the hub, because a Unix socket has none.
    """

    __slots__ = ("_hub", "_secure", "number", "bytes_written")

    def __init__(self, lower: asyncio.Transport, hub: NativeHub, preface: re.Match[bytes]) -> None:
        super().__init__(lower, (preface[3].decode(), int(preface[4])))
        self.number, self.bytes_written = int(preface[1]), 0
        self._hub, self._secure = hub, preface[2] == b"https"

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._secure or None
        return default if name == "socket" else super().get_extra_info(name, default)

    def write(self, data: Buffer) -> None:
        self.bytes_written += len(data)
        self._lower.write(data)

    def abort(self) -> None:
        self._hub.abort(self.number)
        self._lower.abort()

    def can_write_eof(self) -> bool:
        return not self._secure


class PassedConnection(asyncio.Protocol):
    """Reads the preface of a connection, then gives its bytes to a `UserConnection`.
    `learn` is called after each request.
    """

    __slots__ = (
        "_bytes_read",
        "_hub",
        "_learn",
        "_lower_transport",
        "_preface",
        "_splices",
        "_transport",
        "_user",
    )

    def __init__(
        self,
        hub: NativeHub,
        user: UserConnection,
        learn: Callable[[UserConnection], None],
        splices: SplicedRequests,
    ) -> None:
        self._hub, self._user, self._learn = hub, user, learn
        self._splices = splices
        self._lower_transport: asyncio.Transport
        self._transport: PassedTransport | None = None
        self._preface = b""
        self._bytes_read = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transports are no subclasses of asyncio's.
        self._lower_transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        if self._transport is None:
            data = self._begin(data)
        if data:
            self._bytes_read += len(data)
            self._user.data_received(data)

    def eof_received(self) -> bool:
        return self._transport is not None and self._user.eof_received()

    def pause_writing(self) -> None:
        self._user.pause_writing()

    def resume_writing(self) -> None:
        self._user.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._user.connection_lost(exc)

    def _begin(self, data: bytes) -> bytes:
        self._preface += data
        preface = _PREFACE.match(self._preface)
        if preface is None:
            if len(self._preface) > _MAX_PREFACE:
                self._lower_transport.abort()
            return b""
        self._transport = PassedTransport(self._lower_transport, self._hub, preface)
        self._user.on_idle = self._report_idle
        self._user.on_hand_over = self._hand_over
        self._user.connection_made(self._transport)
        return self._preface[preface.end() :]

    def _hand_over(self, request: ProxiedRequest, message: Open) -> bool:
        transport = self._transport
        if transport is None:
            return False
        position = ConnectionPosition(transport.number, self._bytes_read, transport.bytes_written)
        return self._splices.hand_over(position, request, message)

    def _report_idle(self) -> None:
        transport = self._transport
        if transport is not None and self._user.is_idle:
            self._learn(self._user)
            self._hub.rest(transport.number, self._bytes_read, transport.bytes_written)
