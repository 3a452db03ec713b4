"""A terminal session as asciicast v2: one JSON line of metadata, then one line for each event."""

import codecs
import json

from core.runtime.clock import Clock
from proxy.domain.audit import RequestRecord
from proxy.domain.terminal import TerminalSession

WIDTH, HEIGHT = 80, 24
MAX_RESIZE = 1 << 10
_OUTPUT, _INPUT, _RESIZE, _MARKER = "o", "i", "r", "m"


class AsciicastWriter:
    """Turns the bytes of a session into lines, up to a maximum size.
    `pending`: lines that were not yet written. Beyond the maximum, a marker replaces further
    events.
    """

    def __init__(
        self, clock: Clock, record: RequestRecord, session: TerminalSession, max_bytes: int
    ) -> None:
        self.pending: list[bytes] = [_header(record, session)]
        self.truncated = False
        self._clock, self._started = clock, clock.monotonic()
        self._bytes_left = max_bytes
        self._resize = b""
        decoder = codecs.getincrementaldecoder("utf-8")
        self._decoders = {code: decoder("replace") for code in (_OUTPUT, _INPUT)}

    def output(self, data: bytes) -> None:
        """Adds output of the terminal."""
        if not self.truncated:
            self._add(_OUTPUT, self._decoders[_OUTPUT].decode(data))

    def input(self, data: bytes) -> None:
        """Adds input of the user."""
        if not self.truncated:
            self._add(_INPUT, self._decoders[_INPUT].decode(data))

    def resize(self, data: bytes) -> None:
        """Adds bytes of the resize channel, which carries the terminal's size as JSON."""
        self._resize = (self._resize + data)[-MAX_RESIZE:]
        while (end := self._resize.find(b"}")) >= 0:
            text, self._resize = self._resize[: end + 1], self._resize[end + 1 :]
            if size := _terminal_size(text):
                self._add(_RESIZE, size)

    def _add(self, code: str, text: str) -> None:
        if self.truncated or not text:
            return
        seconds = round(self._clock.monotonic() - self._started, 6)
        line = _encode_line([seconds, code, text])
        self._bytes_left -= len(line)
        if self._bytes_left < 0:
            self.truncated = True
            line = _encode_line([seconds, _MARKER, "recording truncated: maximum size reached"])
        self.pending.append(line)


def _header(record: RequestRecord, session: TerminalSession) -> bytes:
    user = record.identity.name if record.identity else ""
    metadata = {
        "version": 2,
        "width": WIDTH,
        "height": HEIGHT,
        "timestamp": int(record.at.timestamp()),
        "title": f"{record.handle}: {session.title}",
        "command": " ".join(session.command),
        "towline": {
            "request": record.id,
            "user": user,
            "acting_as": record.acting_as or user,
            "cluster": record.handle,
            "cluster_id": record.cluster_id or "",
            "container": session.container,
            "input": session.keep_input,
        },
    }
    return _encode_line(metadata)


def _encode_line(value: object) -> bytes:
    """Encodes a line as ASCII, so that a recording can be cut at any byte and still be text."""
    return json.dumps(value, separators=(",", ":")).encode() + b"\n"


def _terminal_size(text: bytes) -> str | None:
    try:
        value = json.loads(text[text.find(b"{") :])
        width, height = int(value["Width"]), int(value["Height"])
    except (ValueError, KeyError, TypeError):
        return None
    return f"{width}x{height}" if 0 < width <= 10_000 and 0 < height <= 10_000 else None
