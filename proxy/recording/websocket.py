"""Reads one direction of a WebSocket (RFC 6455) that carries Kubernetes' channels.
Protocols `channel.k8s.io` to `v5.channel.k8s.io`: the first byte of a message is its channel. With
`base64.…` the channel is a digit and the rest is base64. The reader passes payloads on in pieces.
"""

import base64
import binascii
from collections.abc import Callable

from core.mux.codec import Buffer
from proxy.domain.terminal import UnrecordableError

MAX_TEXT = 1 << 20
_TEXT, _BINARY = 1, 2
_FIRST_CONTROL = 8

OnPiece = Callable[[int, bytes], None]
"""Called with a channel's number and bytes of it."""


class WebSocketReader:
    """Parses all bytes after the head of the upgrade. `wanted`: the channels to pass on."""

    def __init__(self, on_piece: OnPiece, wanted: frozenset[int]) -> None:
        self._on_piece, self._wanted = on_piece, wanted
        self._head = bytearray()
        self._left = 0
        self._mask = b""
        self._at = 0
        self._final = self._control = False
        self._channel: int | None = None
        self._text: bytearray | None = None

    def feed(self, data: Buffer) -> None:
        """Takes bytes as they arrive. UnrecordableError: they are not a session's frames."""
        view = memoryview(data)
        at = 0
        while at < len(view):
            if self._left:
                size = min(self._left, len(view) - at)
                self._take_payload(view[at : at + size])
                at += size
            else:
                self._head.append(view[at])
                at += 1
                self._try_head()

    def _try_head(self) -> None:
        head = self._head
        if len(head) < 2:
            return
        extended = {126: 2, 127: 8}.get(head[1] & 0x7F, 0)
        mask_size = 4 if head[1] & 0x80 else 0
        if len(head) < 2 + extended + mask_size:
            return
        size = int.from_bytes(head[2 : 2 + extended], "big") if extended else head[1] & 0x7F
        self._mask = bytes(head[2 + extended :])
        self._begin(head[0], size)
        head.clear()

    def _begin(self, first: int, size: int) -> None:
        if first & 0x70:
            raise UnrecordableError("the WebSocket uses an extension")
        opcode = first & 0x0F
        self._final, self._control = bool(first & 0x80), opcode >= _FIRST_CONTROL
        self._left, self._at = size, 0
        if opcode in (_TEXT, _BINARY):
            self._channel = None
            self._text = bytearray() if opcode == _TEXT else None
        if not size:
            self._end_frame()

    def _take_payload(self, piece: memoryview) -> None:
        at, self._at = self._at, self._at + len(piece)
        self._left -= len(piece)
        if not self._control:
            self._take_message(piece, at)
        if not self._left:
            self._end_frame()

    def _take_message(self, piece: memoryview, at: int) -> None:
        """Takes a part of a message; unwanted channels are not unmasked."""
        if self._text is not None:
            self._text += self._unmasked(piece, at)
            if len(self._text) > MAX_TEXT:
                raise UnrecordableError("a text message is too long")
            return
        if self._channel is None:
            self._channel = self._unmasked(piece[:1], at)[0]
            piece, at = piece[1:], at + 1
        if len(piece) and self._channel in self._wanted:
            self._on_piece(self._channel, self._unmasked(piece, at))

    def _end_frame(self) -> None:
        if self._final and not self._control and self._text:
            text, self._text = bytes(self._text), None
            self._give_text(text)

    def _give_text(self, text: bytes) -> None:
        try:
            channel, payload = int(text[:1]), base64.b64decode(text[1:], validate=True)
        except (ValueError, binascii.Error):
            raise UnrecordableError("a text message is not a base64 channel") from None
        if channel in self._wanted and payload:
            self._on_piece(channel, payload)

    def _unmasked(self, piece: memoryview, at: int) -> bytes:
        if not self._mask:
            return bytes(piece)
        size = len(piece)
        turn = at & 3
        mask = self._mask[turn:] + self._mask[:turn]
        key = (mask * (size // 4 + 1))[:size]
        mixed = int.from_bytes(piece, "big") ^ int.from_bytes(key, "big")
        return mixed.to_bytes(size, "big")
