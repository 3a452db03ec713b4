"""Framing of request bodies: their end, and the bytes to send on."""

from typing import Protocol

from core.http1.chunked import ChunkedReader
from proxy.gateway.parse.head import RequestHead


class Body(Protocol):
    """Takes bytes as they arrive; `done` once the request has ended."""

    done: bool

    def take(self, data: bytes) -> tuple[int, bytes]:
        """Returns the number of bytes that belong to the body, and the bytes to send for them.
        `core.http1.chunked.BadChunk`: the framing is broken.
        """
        ...


class CountedBody:
    """A body of known length, including 0; sent on unchanged."""

    def __init__(self, length: int) -> None:
        self._remaining = length
        self.done = not length

    def take(self, data: bytes) -> tuple[int, bytes]:
        piece = data if len(data) <= self._remaining else data[: self._remaining]
        self._remaining -= len(piece)
        self.done = not self._remaining
        return len(piece), piece


class ChunkedBody:
    """A chunked body, framed again without extensions and trailers."""

    def __init__(self) -> None:
        self._reader = ChunkedReader()
        self.done = False

    def take(self, data: bytes) -> tuple[int, bytes]:
        used, pieces = self._reader.feed(data)
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
