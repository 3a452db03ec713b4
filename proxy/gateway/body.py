"""Where the body of a request ends, and what of it is sent on."""

from typing import Protocol

from fleet.http1.chunked import ChunkedReader
from proxy.gateway.head import RequestHead


class Body(Protocol):
    """Takes bytes as they come; `done` when the request has ended."""

    done: bool

    def take(self, data: bytes) -> tuple[int, bytes]:
        """How many of the bytes belong to the body, and what to send for them.

        `fleet.http1.chunked.BadChunk`: the framing is broken.
        """
        ...


class CountedBody:
    """A body of known length, none included; sent as it came."""

    def __init__(self, length: int) -> None:
        self._left = length
        self.done = not length

    def take(self, data: bytes) -> tuple[int, bytes]:
        piece = data if len(data) <= self._left else data[: self._left]
        self._left -= len(piece)
        self.done = not self._left
        return len(piece), piece


class ChunkedBody:
    """A chunked body, framed anew: extensions and trailers are dropped."""

    def __init__(self) -> None:
        self._reader = ChunkedReader()
        self.done = False

    def take(self, data: bytes) -> tuple[int, bytes]:
        used, pieces = self._reader.take(data)
        payload = b"".join(pieces)
        framed = b"%x\r\n%s\r\n" % (len(payload), payload) if payload else b""
        self.done = self._reader.done
        return used, framed + b"0\r\n\r\n" if self.done else framed


NO_BODY = CountedBody(0)


def body_of(head: RequestHead) -> Body:
    """The body that a head announces."""
    if head.chunked:
        return ChunkedBody()
    return CountedBody(head.length) if head.length else NO_BODY
