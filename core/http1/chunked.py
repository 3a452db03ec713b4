"""Reading a chunked body (RFC 9112 section 7.1) exactly to its end."""

import re

MAX_LINE = 4096
MAX_TRAILERS = 16 << 10
_SIZE = re.compile(rb"([0-9A-Fa-f]{1,15})(?:[ \t]*;[\t\x20-\x7e\x80-\xff]*)?\Z")
_TRAILER = re.compile(rb"[!#$%&'*+.^_`|~0-9A-Za-z-]+:[\t\x20-\x7e\x80-\xff]*\Z")


class BadChunk(Exception):
    """The body violates the chunked encoding of the RFC."""


class ChunkedReader:
    """Reads the bytes of a body; `done` is true after the last chunk and the trailers.

    Checks the form of chunk extensions and trailers, then drops them.
    """

    def __init__(self) -> None:
        self.done = False
        self._remaining = 0
        self._line = b""
        self._step = self._on_size
        self._trailer_bytes = 0

    def feed(self, data: bytes) -> tuple[int, list[bytes]]:
        """Returns the number of bytes that belong to the body, and their payload."""
        position, payload = 0, []
        while position < len(data) and not self.done:
            if self._remaining:
                piece = data[position : position + self._remaining]
                payload.append(piece)
                self._remaining -= len(piece)
                position += len(piece)
            else:
                position = self._feed_line(data, position)
        return position, payload

    def _feed_line(self, data: bytes, start: int) -> int:
        end = data.find(b"\n", start)
        next_start = len(data) if end < 0 else end + 1
        self._line += data[start:next_start]
        if len(self._line) > MAX_LINE:
            raise BadChunk("a line of the chunked body is too long")
        if end >= 0:
            line, self._line = self._line, b""
            if not line.endswith(b"\r\n"):
                raise BadChunk("a line of the chunked body does not end in CRLF")
            self._step(line[:-2])
        return next_start

    def _on_size(self, line: bytes) -> None:
        match = _SIZE.match(line)
        if match is None:
            raise BadChunk("a chunk has no valid size")
        self._remaining = int(match[1], 16)
        self._step = self._on_chunk_end if self._remaining else self._on_trailer

    def _on_chunk_end(self, line: bytes) -> None:
        if line:
            raise BadChunk("a chunk is longer than its size")
        self._step = self._on_size

    def _on_trailer(self, line: bytes) -> None:
        self._trailer_bytes += len(line)
        if not line:
            self.done = True
        elif self._trailer_bytes > MAX_TRAILERS or not _TRAILER.match(line):
            raise BadChunk("bad trailers after a chunked body")
