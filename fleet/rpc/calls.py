"""The port: calls of messages both ways, each one end of one of them, and how they end."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from google.protobuf.message import DecodeError, Message

from fleet.errors import Code, TowlineError

Metadata = Sequence[tuple[str, str]]

UNSERVED = "the control plane could not serve this; its log says why"


class Status(IntEnum):
    """How a call has ended (gRPC, doc/statuscodes.md)."""

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
    Code.UNAUTHENTICATED: Status.UNAUTHENTICATED,
    Code.FORBIDDEN: Status.PERMISSION_DENIED,
    Code.NOT_FOUND: Status.NOT_FOUND,
    Code.INVALID: Status.INVALID_ARGUMENT,
    Code.CONFLICT: Status.FAILED_PRECONDITION,
    Code.LIMIT: Status.RESOURCE_EXHAUSTED,
    Code.UNAVAILABLE: Status.UNAVAILABLE,
    Code.INTERNAL: Status.INTERNAL,
}


class CallFailed(TowlineError):
    """A call has ended otherwise than well; `status` says how."""

    def __init__(self, status: Status, message: str) -> None:
        super().__init__(message or f"the call has ended: {status.name}")
        self.status = status


def status_of(error: TowlineError) -> Status:
    """What a caller is told of an error."""
    return error.status if isinstance(error, CallFailed) else _STATUS[error.code]


class Call(Protocol):
    """One end of a call.

    `peer`: the address of the far side, for people. `metadata`: what the caller sent along, names
    in lower case; of a name that came twice the last.
    """

    @property
    def peer(self) -> str: ...

    @property
    def metadata(self) -> Mapping[str, str]: ...

    async def read(self) -> bytes | None:
        """The next message; None: the far side has ended well. CallFailed: it has not."""
        ...

    async def write(self, message: bytes) -> None:
        """Returns when there is room for it. CallFailed: the call has ended."""
        ...

    async def done(self) -> None:
        """The caller has nothing more to say."""
        ...

    def cancel(self) -> None:
        """End the call at once, whatever state it is in."""
        ...


class Channel(Protocol):
    """The caller's end of a connection, which is dialled at the first call, and anew when one
    finds it lost."""

    async def call(self, path: str, metadata: Metadata) -> Call:
        """Begin a call. CallFailed: there is no way to the far side."""
        ...

    async def close(self) -> None:
        """End all calls and the connection."""
        ...


Handler = Callable[[Call], Coroutine[Any, Any, None]]
"""Serves one call to its end; a TowlineError that it raises is told to the caller."""


@dataclass(frozen=True, slots=True)
class ServerLimits:
    """`without_call`: seconds that a connection may go without an open call, or without TLS;
    `calls`: open at a time on one connection; `message`: bytes of the largest one."""

    without_call: float = 30.0
    calls: int = 64
    message: int = 4 << 20


class Certified(Protocol):
    """Paths of a certificate with its chain and of its key, both PEM."""

    @property
    def certificate(self) -> Path: ...

    @property
    def key(self) -> Path: ...


class Server(Protocol):
    """Serves handlers by their paths."""

    async def start(self, where: tuple[str, int], certified: Certified | None) -> int:
        """Listen, over TLS if certified; the port. OSError: it is taken, or a file not good."""
        ...

    async def stop(self, grace: float = 0.0) -> None:
        """Take no new calls, and end the open ones after `grace` seconds."""
        ...


Out = TypeVar("Out", bound=Message)
In = TypeVar("In", bound=Message)


@dataclass(frozen=True, slots=True)
class Method(Generic[Out, In]):
    """A call of protobuf messages: what the caller says, what it hears."""

    path: str
    said: type[Out]
    heard: type[In]

    async def begin(self, channel: Channel, metadata: Metadata) -> "Talk[Out, In]":
        """The caller's end of a new call. CallFailed: as `Channel.call`."""
        return Talk(await channel.call(self.path, metadata), self.heard)

    async def ask(self, channel: Channel, metadata: Metadata, said: Out) -> AsyncGenerator[In]:
        """What the far side answers to one message. CallFailed: as `Channel.call`, `Call.read`."""
        talk = await self.begin(channel, metadata)
        try:
            await talk.write(said)
            await talk.done()
            async for message in talk:
                yield message
        finally:
            talk.cancel()

    def served(self, call: Call) -> "Talk[In, Out]":
        """The other end."""
        return Talk(call, self.said)


class Talk(Generic[Out, In]):
    """A call whose messages are protobuf's."""

    def __init__(self, call: Call, heard: type[In]) -> None:
        self.call = call
        self._heard = heard

    async def read(self) -> In | None:
        """As `Call.read`. CallFailed: also for what is no such message."""
        data = await self.call.read()
        if data is None:
            return None
        try:
            return self._heard.FromString(data)
        except DecodeError as error:
            raise CallFailed(
                Status.INTERNAL, f"what came is no {self._heard.DESCRIPTOR.name}"
            ) from error

    async def write(self, message: Out) -> None:
        """As `Call.write`."""
        await self.call.write(message.SerializeToString())

    async def done(self) -> None:
        """As `Call.done`."""
        await self.call.done()

    def cancel(self) -> None:
        """As `Call.cancel`."""
        self.call.cancel()

    async def __aiter__(self) -> AsyncIterator[In]:
        while (message := await self.read()) is not None:
            yield message
