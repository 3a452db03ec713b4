"""DATA frames as zstd frames of their own (RFC 8878), for links narrower than a processor.

Frames do not depend on each other: nothing is kept for a stream, and turns stay as they are.
"""

import sys

from fleet.mux.codec import MAX_FRAME, Buffer, ProtocolError

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

SMALLEST = 1 << 10
# What does not come to less than this part is sent as it is.
WORTH = 0.85
SKIPPED = 32
_LEVEL = 1
_WINDOW_LOG = 16
_PACK: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.window_log: _WINDOW_LOG,
}
_UNPACK: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}


class Packer:
    """Packs payloads; its working memory is kept, about half a megabyte once it was used."""

    def __init__(self) -> None:
        # Most links never pack.
        self._compressor: zstd.ZstdCompressor | None = None

    def pack(self, payload: Buffer) -> bytes | None:
        """The packed payload; None: not worth it."""
        if self._compressor is None:
            self._compressor = zstd.ZstdCompressor(options=_PACK)
        packed = self._compressor.compress(payload, zstd.ZstdCompressor.FLUSH_FRAME)
        return packed if len(packed) < len(payload) * WORTH else None


def unpack(payload: Buffer) -> bytes:
    """What was packed. ProtocolError: it is no single frame, or more than a frame may hold."""
    decompressor = zstd.ZstdDecompressor(options=_UNPACK)
    try:
        data = decompressor.decompress(payload, MAX_FRAME + 1)
    except zstd.ZstdError as error:
        raise ProtocolError(f"a packed frame that cannot be read: {error}") from None
    if not decompressor.eof or decompressor.unused_data or len(data) > MAX_FRAME:
        raise ProtocolError("a packed frame that is not one frame's content")
    return data
