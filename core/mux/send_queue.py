"""The send queue of a link, with fair turns.

Small frames overtake the bulk data of other streams. Bulk data is cut into quanta and sent
round robin, by tenant (a user) and then by stream. The order within a stream never changes.
"""

from typing import Protocol

from core.mux.codec import COMPRESSED, HEADER_SIZE, Buffer, header
from core.mux.compression import MIN_COMPRESSIBLE_BYTES, SKIPPED_FRAMES, FrameCompressor

MESSAGE = 64 << 10
QUANTUM = 32 << 10
SMALL = 8 << 10


class BulkSource(Protocol):
    """A stream, as the queue uses it; only the queue sets `offered`, `last_small`,
    `compression_skips`.

    `compression_skips` is the number of next frames that the queue does not try to compress.
    """

    id: int
    tenant: bytes
    offered: int
    last_small: int
    compression_skips: int

    @property
    def sendable(self) -> int:
        """Bytes of bulk data that have credit."""
        ...

    def cut(self, quantum: int) -> tuple[int, Buffer]:
        """Takes the next frame, of at most `quantum` bytes: type with flags, payload."""
        ...


class SendQueue:
    """Small frames (the lane), and streams with bulk data that has credit (the ring).

    `quantum` and `message` are the approximate bytes of bulk data per frame and per message.
    """

    __slots__ = (
        "_lane",
        "_lane_taken",
        "_ring",
        "bulk_size",
        "lane_size",
        "message",
        "posted",
        "quantum",
    )

    def __init__(self) -> None:
        self.quantum, self.message = QUANTUM, MESSAGE
        self.lane_size = 0
        self.bulk_size = 0
        self.posted = 0
        self._lane_taken = 0
        self._lane: list[tuple[bytes, Buffer]] = []
        self._ring: dict[bytes, dict[int, BulkSource]] = {}

    def __bool__(self) -> bool:
        return bool(self._lane) or bool(self._ring)

    @property
    def is_trivial(self) -> bool:
        """True if at most one frame and one tenant wait: coalescing would gain nothing."""
        return len(self._lane) < 2 and len(self._ring) < 2

    def post(self, stream_id: int, kind: int, payload: Buffer) -> None:
        """Queues one frame before all bulk data."""
        size = len(payload)
        self._lane.append((header(stream_id, kind, size), payload))
        self.lane_size += size + HEADER_SIZE
        self.posted += 1

    def offer(self, source: BulkSource) -> None:
        """Updates a stream's sendable bytes; the stream is in the ring while it has any."""
        ready = source.sendable
        self.bulk_size += ready - source.offered
        if ready and not source.offered:
            self._ring.setdefault(source.tenant, {})[source.id] = source
        elif source.offered and not ready:
            self._remove(source)
        source.offered = ready

    def next_message(
        self, room: int, compressor: FrameCompressor | None = None
    ) -> tuple[list[Buffer], int]:
        """Returns buffers and size of the next message; empty if bulk data has no room.

        With a compressor, compresses bulk data that shrinks enough.
        """
        share = MESSAGE if not self._ring or room <= 0 else self.message * 3 // 4
        message, size = self._take_small(share)
        while size < self.message and size < room and (source := self._next_source()):
            kind, payload = source.cut(self.quantum)
            if compressor is not None and len(payload) >= MIN_COMPRESSIBLE_BYTES:
                kind, payload = _compress_frame(source, compressor, kind, payload)
            message.append(header(source.id, kind, len(payload)))
            message.append(payload)
            size += len(payload) + HEADER_SIZE
            self.offer(source)
            self._move_to_end(source)
        return message, size

    def _take_small(self, share: int) -> tuple[list[Buffer], int]:
        count, size = len(self._lane), self.lane_size
        if size > share:
            count, size = self._count_fitting(share)
        message: list[Buffer] = []
        for head, payload in self._lane[:count]:
            message.append(head)
            message.append(payload)
        del self._lane[:count]
        self.lane_size -= size
        self._lane_taken += count
        return message, size

    def _count_fitting(self, share: int) -> tuple[int, int]:
        count = size = 0
        for head, payload in self._lane:
            frame_size = len(head) + len(payload)
            if count and size + frame_size > share:
                break
            count, size = count + 1, size + frame_size
        return count, size

    def _next_source(self) -> BulkSource | None:
        """Returns the next stream in turn; skips streams with frames in the lane."""
        for streams in self._ring.values():
            for source in streams.values():
                if source.last_small <= self._lane_taken:
                    return source
        return None

    def _move_to_end(self, source: BulkSource) -> None:
        """Moves the served stream and its tenant to the end of the ring."""
        streams = self._ring.pop(source.tenant, None)
        if streams is None:
            return
        if streams.pop(source.id, None) is not None:
            streams[source.id] = source
        self._ring[source.tenant] = streams

    def _remove(self, source: BulkSource) -> None:
        streams = self._ring[source.tenant]
        del streams[source.id]
        if not streams:
            del self._ring[source.tenant]


def _compress_frame(
    source: BulkSource, compressor: FrameCompressor, kind: int, payload: Buffer
) -> tuple[int, Buffer]:
    if source.compression_skips:
        source.compression_skips -= 1
        return kind, payload
    packed = compressor.pack(payload)
    if packed is None:
        source.compression_skips = SKIPPED_FRAMES
        return kind, payload
    return kind | COMPRESSED, packed
