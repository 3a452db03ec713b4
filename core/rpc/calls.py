"""The port for gRPC calls: bidirectional streams of messages, and their status."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from core.errors import Code, TowlineError
from core.runtime.tasks import Work

Metadata = Sequence[tuple[str, str]]

INTERNAL_FAILURE = "the control plane failed to serve this call; see its log"


class CallStatus(IntEnum):
    """Status codes of a call (gRPC, doc/statuscodes.md)."""

    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


_STATUS = {
    Code.UNAUTHENTICATED: CallStatus.UNAUTHENTICATED,
    Code.FORBIDDEN: CallStatus.PERMISSION_DENIED,
    Code.NOT_FOUND: CallStatus.NOT_FOUND,
    Code.INVALID: CallStatus.INVALID_ARGUMENT,
    Code.CONFLICT: CallStatus.FAILED_PRECONDITION,
    Code.LIMIT: CallStatus.RESOURCE_EXHAUSTED,
    Code.UNAVAILABLE: CallStatus.UNAVAILABLE,
    Code.INTERNAL: CallStatus.INTERNAL,
}


class CallFailed(TowlineError):
    """A call has failed with `status`."""

    def __init__(self, status: CallStatus, message: str) -> None:
        super().__init__(message or f"the call failed: {status.name}")
        self.status = status


def status_of(error: TowlineError) -> CallStatus:
    """Maps an error to the status for the caller."""
    return error.status if isinstance(error, CallFailed) else _STATUS[error.code]


class Call(Protocol):
    """One end of a call.

    `peer` is the address of the other end, for people. `metadata` is the caller's metadata with
    lower-case names; of a repeated name, the last value.
    """

    @property
    def peer(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes | None:
        """Returns the next message, None at the end. CallFailed: the call has failed."""
        ...

    async def write(self, message: bytes) -> None:
        """Sends a message as soon as there is room. CallFailed: the call has ended."""
        ...

    async def done(self) -> None:
        """Ends the messages of the caller."""
        ...

    def cancel(self) -> None:
        """Ends the call at once, in any state."""
        ...


class CallChannel(Protocol):
    """A client connection; the first call connects, and later calls reconnect if it is lost."""

    async def call(self, path: str, metadata: Metadata) -> Call:
        """Begins a call. CallFailed: the server cannot be reached."""
        ...

    async def close(self) -> None:
        """Ends all calls and the connection."""
        ...


Handler = Callable[[Call], Work[None]]
"""Serves one call to its end; the caller gets the status of a raised TowlineError."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """Limits of one connection.

    `idle_seconds`: seconds without an open call, or until the TLS handshake. `calls`: concurrent
    calls. `message`: bytes of the largest message. `unanswered`: connections of one address without
    any response yet, whose callers are thus unauthenticated; another one ends the oldest of them.
    """

    idle_seconds: float = 30.0
    calls: int = 64
    message: int = 4 << 20
    unanswered: int = 256


class CertificateFiles(Protocol):
    """Paths of a certificate chain and its key, both PEM."""

    @property
    def certificate(self) -> Path: ...

    @property
    def key(self) -> Path: ...


class CallServer(Protocol):
    """Serves handlers by path.

    `direct` is the started server's address for connections of this process, which pass on those of
    other clients: no load balancer names them.
    """

    @property
    def direct(self) -> tuple[str, int]: ...

    async def start(
        self, address: tuple[str, int], certificate_files: CertificateFiles | None
    ) -> int:
        """Listens, with TLS if certified, and returns the port.

        OSError: the port is in use, or a certificate file is unusable.
        """
        ...

    async def stop(self, grace: float = 0.0) -> None:
        """Accepts no new calls, and ends the open ones after `grace` seconds."""
        ...


Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)


@dataclass(frozen=True, slots=True)
class CallMethod(Generic[Out, In]):
    """A call of protobuf messages: `request_type` is the type of requests, `response_type` of
    responses.
    """

    path: str
    request_type: type[Out]
    response_type: type[In]

    async def begin(self, channel: CallChannel, metadata: Metadata) -> "MessageCall[Out, In]":
        """Begins a call. CallFailed: see `CallChannel.call`."""
        return MessageCall(await channel.call(self.path, metadata), self.response_type)

    async def stream_responses(
        self, channel: CallChannel, metadata: Metadata, request: Out
    ) -> AsyncGenerator[In]:
        """Sends one message and yields the responses. CallFailed: see `CallChannel.call`."""
        call = await self.begin(channel, metadata)
        try:
            await call.write(request)
            await call.done()
            async for message in call:
                yield message
        finally:
            call.cancel()

    def wrap(self, call: Call) -> "MessageCall[In, Out]":
        """Wraps a call on the server."""
        return MessageCall(call, self.request_type)


class MessageCall(Generic[Out, In]):
    """A call with protobuf messages."""

    def __init__(self, call: Call, response_type: type[In]) -> None:
        self.call = call
        self._response_type = response_type

    async def read(self) -> In | None:
        """Returns the next message, None at the end. CallFailed: also for a malformed message."""
        data = await self.call.read()
        if data is None:
            return None
        try:
            return self._response_type.FromString(data)
        except DecodeError as error:
            raise CallFailed(
                CallStatus.INTERNAL,
                f"received data is not a {self._response_type.DESCRIPTOR.name} message",
            ) from error

    async def write(self, message: Out) -> None:
        """Sends a message; see `Call.write`."""
        await self.call.write(message.SerializeToString())

    async def done(self) -> None:
        """Ends the messages of the caller; see `Call.done`."""
        await self.call.done()

    def cancel(self) -> None:
        """Ends the call at once; see `Call.cancel`."""
        self.call.cancel()

    async def __aiter__(self) -> AsyncIterator[In]:
        while (message := await self.read()) is not None:
            yield message
