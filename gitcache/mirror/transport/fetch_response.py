"""Incremental parser of the response to a protocol version 2 `fetch` (gitprotocol-v2(5))."""

from gitcache.mirror.transport.pktline import Malformed

_LENGTH = 4
_DATA, _PROGRESS, _ERROR = 1, 2, 3
_SECTIONS = (b"shallow-info", b"packfile", b"acknowledgments", b"wanted-refs")


class ServerError(Exception):
    """The server's error message in place of a pack."""


class FetchResponse:
    """Extracts the pack from the bytes of a response.

    `shallow` and `unshallow` are the server's new boundaries; `complete` is true at the end.
    """

    def __init__(self) -> None:
        self.shallow: list[str] = []
        self.unshallow: list[str] = []
        self.complete = False
        self._buffer = bytearray()
        self._section = b""

    def feed(self, chunk: bytes) -> bytes:
        """Returns the pack data in this chunk. Raises Malformed, ServerError."""
        self._buffer += chunk
        pack: list[bytes] = []
        position = 0
        while (end := self._end_of_packet(position)) is not None:
            payload = bytes(self._buffer[position + _LENGTH : end])
            if end - position <= _LENGTH:
                self._handle_special(int(self._buffer[position:end], 16))
            elif self._section == b"packfile":
                pack.append(_pack_data(payload))
            else:
                self._handle_line(payload.rstrip(b"\n"))
            position = end
        del self._buffer[:position]
        return b"".join(pack)

    def _end_of_packet(self, position: int) -> int | None:
        """Returns the end of the packet at this position, None if it is incomplete."""
        prefix = self._buffer[position : position + _LENGTH]
        if len(prefix) < _LENGTH:
            return None
        try:
            length = int(prefix.decode("ascii"), 16)
        except ValueError:
            raise Malformed("no packet length") from None
        if self.complete or length == 3 or prefix[:1] in b"+- ":
            raise Malformed("unexpected bytes in the response")
        end = position + max(length, _LENGTH)
        return end if end <= len(self._buffer) else None

    def _handle_special(self, number: int) -> None:
        """Handles special packets: a flush ends the response, a delimiter the section."""
        if number == 0:
            if self._section != b"packfile":
                raise Malformed("the response has no pack")
            self.complete = True
        self._section = b""

    def _handle_line(self, line: bytes) -> None:
        if line.startswith(b"ERR "):
            raise ServerError(line[4:].decode("utf-8", "replace"))
        if line in _SECTIONS:
            self._section = line
            return
        keyword, _, sha = line.partition(b" ")
        if self._section == b"shallow-info" and keyword in {b"shallow", b"unshallow"}:
            boundary = self.shallow if keyword == b"shallow" else self.unshallow
            boundary.append(sha.decode("ascii", "replace"))
        elif not self._section:
            raise Malformed("a line outside of all sections")


def _pack_data(payload: bytes) -> bytes:
    band, data = payload[0], payload[1:]
    if band == _DATA:
        return data
    if band == _PROGRESS:
        return b""
    if band == _ERROR:
        raise ServerError(data.decode("utf-8", "replace").strip())
    raise Malformed(f"side band {band}")
