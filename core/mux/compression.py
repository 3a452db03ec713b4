"""Compression of DATA frames with zstd (RFC 8878), for links slower than a CPU core.

Each DATA frame is one independent zstd frame: streams keep no state and take turns as before.
"""

from core.mux.codec import MAX_FRAME, Buffer, ProtocolError
from core.zstd import zstd

MIN_COMPRESSIBLE_BYTES = 1 << 10
# Payloads that do not shrink below this ratio are sent uncompressed.
MAX_COMPRESSION_RATIO = 0.85
SKIPPED_FRAMES = 32
_LEVEL = 1
_WINDOW_LOG = 16
_PACK: dict[int, int] = {
    zstd.CompressionParameter.compression_level: _LEVEL,
    zstd.CompressionParameter.window_log: _WINDOW_LOG,
}
_UNPACK: dict[int, int] = {zstd.DecompressionParameter.window_log_max: _WINDOW_LOG}


class FrameCompressor:
    """Compresses payloads; keeps about 0.5 MB of working memory after the first use."""

    __slots__ = ("_compressor",)

    def __init__(self) -> None:
        # Made on first use: most links never compress.
        self._compressor: zstd.ZstdCompressor | None = None

    def pack(self, payload: Buffer) -> bytes | None:
        """Compresses a payload; returns None if it does not shrink enough."""
        if self._compressor is None:
            self._compressor = zstd.ZstdCompressor(options=_PACK)
        packed = self._compressor.compress(payload, zstd.ZstdCompressor.FLUSH_FRAME)
        return packed if len(packed) < len(payload) * MAX_COMPRESSION_RATIO else None


def decompress(payload: Buffer) -> bytes:
    """Decompresses a payload. Raises ProtocolError unless it is one frame within the limit."""
    decompressor = zstd.ZstdDecompressor(options=_UNPACK)
    try:
        data = decompressor.decompress(payload, MAX_FRAME + 1)
    except zstd.ZstdError as error:
        raise ProtocolError(f"malformed compressed frame: {error}") from None
    if not decompressor.eof or decompressor.unused_data or len(data) > MAX_FRAME:
        raise ProtocolError("a compressed frame is incomplete, too large or has trailing bytes")
    return data
