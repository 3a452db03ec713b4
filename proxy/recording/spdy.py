"""Reads both directions of SPDY/3.1 as kubectl uses it, and assigns bytes to streams.
The client opens a stream for each channel and names the channel in its headers, which are
compressed with the dictionary of the specification (SPDY/3, 2.6.10.1).
"""

import struct
import zlib
from collections.abc import Callable

from core.mux.codec import Buffer
from proxy.domain.terminal import UnrecordableError

MAX_CONTROL = 64 << 10
MAX_HEADERS = 64 << 10
MAX_STREAMS = 64
MAX_FIELDS = 64
STREAM_TYPES = frozenset({b"stdin", b"stdout", b"stderr", b"error", b"resize"})
_SYN_STREAM, _SYN_REPLY, _HEADERS = 1, 2, 8
_BLOCK_AT = {_SYN_STREAM: 10, _SYN_REPLY: 4, _HEADERS: 4}

_NAMES = (
    "options head post put delete trace accept accept-charset accept-encoding accept-language"
    " accept-ranges age allow authorization cache-control connection content-base"
    " content-encoding content-language content-length content-location content-md5"
    " content-range content-type date etag expect expires from host if-match if-modified-since"
    " if-none-match if-range if-unmodified-since last-modified location max-forwards pragma"
    " proxy-authenticate proxy-authorization range referer retry-after server te trailer"
    " transfer-encoding upgrade user-agent vary via warning www-authenticate method get status"
)
_PAIRS = ("200 OK", "version", "HTTP/1.1", "url", "public", "set-cookie", "keep-alive", "origin")
_TEXT = (
    "100101201202205206300302303304305306307402405406407408409410411412413414415416417502504505"
    "203 Non-Authoritative Information204 No Content301 Moved Permanently400 Bad Request"
    "401 Unauthorized403 Forbidden404 Not Found500 Internal Server Error501 Not Implemented"
    "503 Service UnavailableJan Feb Mar Apr May Jun Jul Aug Sept Oct Nov Dec 00:00:00 "
    "Mon, Tue, Wed, Thu, Fri, Sat, Sun, GMTchunked,text/html,image/png,image/jpg,image/gif,"
    "application/xml,application/xhtml+xml,text/plain,text/javascript,publicprivatemax-age="
    "gzip,deflate,sdchcharset=utf-8charset=iso-8859-1,utf-,*,enq=0."
)
DICTIONARY = (
    b"".join(struct.pack(">I", len(word)) + word.encode() for word in (*_NAMES.split(), *_PAIRS))
    + _TEXT.encode()
)

OnFrame = Callable[[int, bytes], None]


class SpdyStreams:
    """State of both directions: the type of each stream, as named by the client."""

    def __init__(self) -> None:
        self.types: dict[int, str] = {}
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)

    def on_control(self, kind: int, payload: bytes) -> None:
        """Handles a control frame of the client. UnrecordableError: it cannot be parsed."""
        offset = _BLOCK_AT.get(kind)
        if offset is None:
            return
        if len(payload) < offset:
            raise UnrecordableError("a SPDY frame is too short")
        headers = self._headers(payload[offset:])
        if kind == _SYN_STREAM:
            if len(self.types) >= MAX_STREAMS:
                raise UnrecordableError("too many SPDY streams")
            (stream,) = struct.unpack_from(">I", payload)
            stream &= 0x7FFFFFFF
            types = [value for name, value in headers if name.lower() == b"streamtype"]
            if len(types) != 1 or types[0] not in STREAM_TYPES or stream in self.types:
                # The API server could read another type than the recording.
                raise UnrecordableError("a SPDY stream has no single known type")
            self.types[stream] = types[0].decode()

    def _headers(self, block: bytes) -> list[tuple[bytes, bytes]]:
        """Decompresses a header block; every block must pass through the one decompressor
        in order.
        """
        try:
            decompressed = self._inflate.decompress(block, MAX_HEADERS)
            (count,) = struct.unpack_from(">I", decompressed)
            if count > MAX_FIELDS:
                raise UnrecordableError("too many SPDY headers")
            texts, offset = [], 4
            for _ in range(count * 2):
                (size,) = struct.unpack_from(">I", decompressed, offset)
                texts.append(decompressed[offset + 4 : offset + 4 + size])
                offset += 4 + size
        except (zlib.error, struct.error):
            raise UnrecordableError("SPDY headers cannot be parsed") from None
        return list(zip(texts[::2], texts[1::2], strict=True))


class SpdyReader:
    """Parses the frames of one direction: `on_data` gets a stream's id and bytes, `on_control` the
    rest.
    """

    def __init__(self, on_data: OnFrame, on_control: OnFrame | None = None) -> None:
        self._on_data, self._on_control = on_data, on_control
        self._head = b""
        self._remaining = self._stream_or_type = 0
        self._control = False
        self._payload = bytearray()

    def feed(self, data: Buffer) -> None:
        """Takes bytes as they arrive. UnrecordableError: they are not SPDY/3.1."""
        view = memoryview(data)
        offset = 0
        while offset < len(view):
            if self._remaining:
                piece = view[offset : offset + self._remaining]
                self._remaining -= len(piece)
                self._take_payload(bytes(piece))
            else:
                piece = view[offset : offset + 8 - len(self._head)]
                self._head += bytes(piece)
                self._try_head()
            offset += len(piece)

    def _try_head(self) -> None:
        if len(self._head) < 8:
            return
        first, second = struct.unpack(">II", self._head)
        self._head = b""
        self._remaining = second & 0xFFFFFF
        self._control = bool(first >> 31)
        self._stream_or_type = first & 0xFFFF if self._control else first
        self._payload.clear()
        if not self._control:
            return
        if first >> 16 & 0x7FFF != 3 or self._remaining > MAX_CONTROL:
            raise UnrecordableError("not SPDY/3.1")

    def _take_payload(self, piece: bytes) -> None:
        if not self._control:
            self._on_data(self._stream_or_type, piece)
        elif self._on_control is not None:
            self._payload += piece
            if not self._remaining:
                self._on_control(self._stream_or_type, bytes(self._payload))
