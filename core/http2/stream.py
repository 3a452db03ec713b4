"""One HTTP/2 stream: flow control, queued data and states (RFC 9113, 5 and 6.9)."""

from collections.abc import Sequence
from typing import Protocol

from core.http2.frames import (
    DATA,
    END_STREAM,
    MAX_WINDOW,
    ErrorCode,
    Http2ProtocolError,
    head,
    rst_stream,
    window_update,
)

Buffer = bytes | bytearray | memoryview
Header = tuple[str, str]
Headers = Sequence[Header]


class StreamReceiver(Protocol):
    """Reads a stream; gets no call after `on_reset` or after the end of both sides."""

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        """Gets the headers, or later the trailers."""
        ...

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        """Gets a part of the body; reports processed bytes to `Http2Stream.consume`."""
        ...

    def on_end(self) -> None:
        """The peer has ended its side without trailers."""
        ...

    def on_reset(self, code: int, reason: str) -> None:
        """The peer has reset the stream, or the connection is lost."""
        ...

    def on_writable(self) -> None:
        """The stream is no longer blocked."""
        ...


class _DiscardingReceiver:
    """Discards all events of a stream."""

    def on_headers(self, headers: Headers, *, end: bool) -> None:
        pass

    def on_data(self, data: bytes, start: int, stop: int) -> None:
        pass

    def on_end(self) -> None:
        pass

    def on_reset(self, code: int, reason: str) -> None:
        pass

    def on_writable(self) -> None:
        pass


DISCARDING_RECEIVER: StreamReceiver = _DiscardingReceiver()
"""Receiver of a stream whose reader has gone."""


class Http2StreamCarrier(Protocol):
    """The connection, as a stream uses it."""

    send_window: int
    frame_size: int
    paused: bool

    def write(self, data: bytes) -> None: ...
    def wait_for_window(self, stream: "Http2Stream") -> None: ...
    def write_headers(self, stream_id: int, headers: Headers, *, end: bool) -> None: ...
    def remove_stream(self, stream: "Http2Stream") -> None: ...
    def raise_frame_limit(self, frame_size: int) -> None: ...


class Http2Stream:
    """A stream that may initially receive `receive_window` bytes and send `send_window` bytes."""

    __slots__ = (
        "_carrier",
        "_queue",
        "_trailers",
        "_unreported",
        "_window_left",
        "_window_size",
        "closed",
        "id",
        "local_ended",
        "peer_ended",
        "receiver",
        "send_window",
    )

    def __init__(
        self, carrier: Http2StreamCarrier, stream_id: int, receive_window: int, send_window: int
    ) -> None:
        self.id, self.send_window = stream_id, send_window
        self.receiver: StreamReceiver
        self.local_ended = self.peer_ended = self.closed = False
        self._carrier = carrier
        self._window_size = self._window_left = receive_window
        self._unreported = 0
        self._queue: list[memoryview] = []
        self._trailers: Headers | None = None

    # Sending

    @property
    def blocked(self) -> bool:
        """True if data that is sent now would have to wait."""
        return bool(self._queue) or self._carrier.paused

    def send_headers(self, headers: Headers) -> None:
        """Sends the headers of this side."""
        if not self.closed:
            self._carrier.write_headers(self.id, headers, end=False)

    def send(self, pieces: Sequence[Buffer], size: int) -> None:
        """Sends a part of the body, of `size` bytes; queues what exceeds the windows."""
        if self.closed or self.local_ended or not size:
            return
        carrier = self._carrier
        if not self._queue and size <= min(
            self.send_window, carrier.send_window, carrier.frame_size
        ):
            self.send_window -= size
            carrier.send_window -= size
            carrier.write(b"".join((head(size, DATA, 0, self.id), *pieces)))
            return
        self._queue.append(memoryview(b"".join(pieces)))
        self._pump()

    def end(self, trailers: Headers = ()) -> None:
        """Ends this side after the queued data, with these trailers."""
        if self.closed or self.local_ended:
            return
        self.local_ended = True
        self._trailers = trailers
        if not self._queue:
            self._write_end()

    def reset(self, code: ErrorCode = ErrorCode.CANCEL) -> None:
        """Resets the stream without a call to its receiver."""
        if not self.closed:
            self._carrier.write(rst_stream(self.id, code))
            self.close()

    def send_queued_frame(self) -> bool:
        """Sends one queued frame; returns False if the windows have no room."""
        carrier, first = self._carrier, self._queue[0]
        size = min(len(first), carrier.frame_size, self.send_window, carrier.send_window)
        if size <= 0:
            return False
        self.send_window -= size
        carrier.send_window -= size
        carrier.write(head(size, DATA, 0, self.id) + first[:size])
        if size == len(first):
            self._queue.pop(0)
        else:
            self._queue[0] = first[size:]
        if not self._queue and self.local_ended:
            self._write_end()
        return True

    def grow_send_window(self, grown: int) -> None:
        """Widens the send window. Raises Http2ProtocolError beyond the largest window."""
        self.send_window += grown
        if self.send_window > MAX_WINDOW:
            raise Http2ProtocolError(
                ErrorCode.FLOW_CONTROL_ERROR, "the stream's window exceeds 2^31-1"
            )

    @property
    def has_queued_data(self) -> bool:
        """True if queued data waits for a window."""
        return bool(self._queue)

    # Receiving

    def on_data(self, data: bytes, start: int, stop: int, flow_size: int) -> None:
        """Takes a DATA frame; `flow_size` includes its padding.

        Raises Http2ProtocolError beyond the window.
        """
        self._window_left -= flow_size
        if self._window_left < 0:
            raise Http2ProtocolError(
                ErrorCode.FLOW_CONTROL_ERROR, f"stream {self.id} exceeded its window"
            )
        if flow_size > stop - start:
            self.consume(flow_size - (stop - start))
        if stop > start:
            self.receiver.on_data(data, start, stop)

    def consume(self, size: int) -> None:
        """Reports `size` processed bytes and grants the peer as many again."""
        self._unreported += size
        if self._unreported >= self._window_size >> 1 and not self.peer_ended and not self.closed:
            self._window_left += self._unreported
            self._carrier.write(window_update(self.id, self._unreported))
            self._unreported = 0

    def widen_receive_window(self, granted: int) -> None:
        """Widens the receive window to `granted` bytes."""
        grown = granted - self._window_size
        if grown > 0 and not self.peer_ended and not self.closed:
            self._window_size = granted
            self._window_left += grown
            self._carrier.write(window_update(self.id, grown))

    def raise_frame_limit(self, frame_size: int) -> None:
        """Raises the frame size limit after the peer has authenticated."""
        self._carrier.raise_frame_limit(frame_size)

    def on_peer_end(self) -> None:
        """Records the end of the peer's side. When both sides have ended, the stream is closed."""
        self.peer_ended = True
        if self.local_ended and not self._queue:
            self.close()

    def close(self) -> None:
        """Closes the stream without a frame."""
        if not self.closed:
            self.closed = True
            self._queue.clear()
            self._carrier.remove_stream(self)

    # Internal

    def _pump(self) -> None:
        while self._queue and self.send_queued_frame():
            pass
        if self._queue:
            self._carrier.wait_for_window(self)

    def _write_end(self) -> None:
        if self._trailers:
            self._carrier.write_headers(self.id, self._trailers, end=True)
        else:
            self._carrier.write(head(0, DATA, END_STREAM, self.id))
        if self.peer_ended:
            self.close()
