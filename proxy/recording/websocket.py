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
    """Parses all bytes after the head of the upgrade. `channels`: those to pass on."""

    def __init__(self, on_piece: OnPiece, channels: frozenset[int]) -> None:
        self._on_piece, self._channels = on_piece, channels
        self._head = bytearray()
        self._remaining = 0
        self._mask = b""
        self._offset = 0
        self._final = self._control = False
        self._channel: int | None = None
        self._text: bytearray | None = None

    def feed(self, data: Buffer) -> None:
        """Takes bytes as they arrive. UnrecordableError: they are not a session's frames."""
        view = memoryview(data)
        offset = 0
        while offset < len(view):
            if self._remaining:
                size = min(self._remaining, len(view) - offset)
                self._take_payload(view[offset : offset + size])
                offset += size
            else:
                self._head.append(view[offset])
                offset += 1
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
        self._begin_frame(head[0], size)
        head.clear()

    def _begin_frame(self, first: int, size: int) -> None:
        if first & 0x70:
            raise UnrecordableError("the WebSocket uses an extension")
        opcode = first & 0x0F
        self._final, self._control = bool(first & 0x80), opcode >= _FIRST_CONTROL
        self._remaining, self._offset = size, 0
        if opcode in (_TEXT, _BINARY):
            self._channel = None
            self._text = bytearray() if opcode == _TEXT else None
        if not size:
            self._end_frame()

    def _take_payload(self, piece: memoryview) -> None:
        offset, self._offset = self._offset, self._offset + len(piece)
        self._remaining -= len(piece)
        if not self._control:
            self._take_message(piece, offset)
        if not self._remaining:
            self._end_frame()

    def _take_message(self, piece: memoryview, offset: int) -> None:
        """Takes a part of a message; unwanted channels are not unmasked."""
        if self._text is not None:
            self._text += self._unmasked(piece, offset)
            if len(self._text) > MAX_TEXT:
                raise UnrecordableError("a text message is too long")
            return
        if self._channel is None:
            self._channel = self._unmasked(piece[:1], offset)[0]
            piece, offset = piece[1:], offset + 1
        if len(piece) and self._channel in self._channels:
            self._on_piece(self._channel, self._unmasked(piece, offset))

    def _end_frame(self) -> None:
        if self._final and not self._control and self._text:
            text, self._text = bytes(self._text), None
            self._pass_text_on(text)

    def _pass_text_on(self, text: bytes) -> None:
        try:
            channel, payload = int(text[:1]), base64.b64decode(text[1:], validate=True)
        except (ValueError, binascii.Error):
            raise UnrecordableError("a text message is not a base64 channel") from None
        if channel in self._channels and payload:
            self._on_piece(channel, payload)

    def _unmasked(self, piece: memoryview, offset: int) -> bytes:
        if not self._mask:
            return bytes(piece)
        size = len(piece)
        rotation = offset & 3
        mask = self._mask[rotation:] + self._mask[:rotation]
        key = (mask * (size // 4 + 1))[:size]
        unmasked = int.from_bytes(piece, "big") ^ int.from_bytes(key, "big")
        return unmasked.to_bytes(size, "big")
