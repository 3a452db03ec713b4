"""Packed frames: what comes out, what is refused, and when anything is packed at all."""

import os
import random

import pytest
from backports import zstd
from hypothesis import given
from hypothesis import strategies as st

from core.mux.codec import MAX_FRAME, ProtocolError
from core.mux.compression import FrameCompressor, decompress
from core.mux.congestion import CongestionWindow
from core.mux.send_queue import SKIPPED_FRAMES, SendQueue

LIST = b'{"kind":"Pod","metadata":{"namespace":"shop"}}' * 600


class Bulk:
    """A stream with bulk, as the queue sees it."""

    def __init__(self, data: bytes) -> None:
        self.id, self.tenant = 1, b"ann"
        self.offered = self.last_small = self.compression_skips = 0
        self._data = data

    @property
    def sendable(self) -> int:
        return len(self._data)

    def cut(self, quantum: int) -> tuple[int, bytes]:
        data, self._data = self._data[:quantum], self._data[quantum:]
        return 2, data


@given(st.binary(max_size=MAX_FRAME), st.integers(0, 3))
def test_packed_frames_decompress_to_the_payload(data: bytes, repeated: int) -> None:
    """One packer serves many frames, and each stands alone."""
    compressor = FrameCompressor()
    data = (data * 4**repeated)[:MAX_FRAME]
    for payload in (LIST, data):
        packed = compressor.pack(payload)
        assert packed is None or decompress(packed) == payload


@given(st.binary(max_size=2000))
def test_garbage_is_a_breach_of_the_protocol(garbage: bytes) -> None:
    """Nothing else is raised, whatever comes."""
    try:
        assert len(decompress(garbage)) <= MAX_FRAME
    except ProtocolError:
        pass


@pytest.mark.parametrize(
    "packed",
    [
        zstd.compress(b"\0" * (100 << 20)),
        zstd.compress(b"a" * MAX_FRAME) + zstd.compress(b"b"),
        zstd.compress(LIST)[:-3],
        b"",
    ],
    ids=["bomb", "two frames", "cut", "nothing"],
)
def test_a_frame_that_is_not_one_payload_is_refused(packed: bytes) -> None:
    """A few kilobytes must not become megabytes."""
    with pytest.raises(ProtocolError):
        decompress(packed)


def test_incompressible_streams_skip_compression() -> None:
    """An archive or an encrypted stream costs one try in 33 frames."""
    queue, bulk = SendQueue(), Bulk(random.Random(1).randbytes(2 << 20))
    queue.offer(bulk)
    tried = 0

    class Counting(FrameCompressor):
        def pack(self, payload) -> bytes | None:
            nonlocal tried
            tried += 1
            return super().pack(payload)

    compressor = Counting()
    while queue:
        queue.next_message(1 << 20, compressor)
    frames = (2 << 20) // queue.quantum
    assert tried == frames // (SKIPPED_FRAMES + 1) + 1


def test_a_link_is_narrow_by_what_has_arrived() -> None:
    """The best of the recent measurements counts."""
    fast, slow, was_slow = CongestionWindow(), CongestionWindow(), CongestionWindow()
    for flight, seconds in ((fast, 0.001), (slow, 0.05), (was_slow, 0.05), (was_slow, 0.001)):
        for step in range(4):
            now = flight.sent / 100_000 + step
            flight.on_sent(100_000, now)
            flight.on_ack(100_000, now + seconds)
    assert (fast.narrow, slow.narrow, was_slow.narrow) == (False, True, False)


def test_a_packed_frame_is_small_on_the_line() -> None:
    """Lists of objects come to a small part."""
    packed = FrameCompressor().pack(LIST + os.urandom(10))
    assert packed is not None and len(packed) * 8 < len(LIST)
