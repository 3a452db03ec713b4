"""Frames: an 8-byte header (stream id, type with flags, payload length, big-endian) and a payload.

A message on a link is one or more complete frames. Stream 0 is the link itself. The control
plane opens streams with odd, rising ids. Types 8 to 11 on stream 0 are reserved; receivers
ignore those that they do not know.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

Buffer = bytes | bytearray | memoryview

HELLO, OPEN, DATA, CREDIT, RESET, PING, DRAIN, ACK = range(8)
UNKNOWN_FIRST, UNKNOWN_LAST = 8, 11

END = 0x80
CLOSE = 0x40
STARVED = 0x20
COMPRESSED = 0x10
TYPE_MASK = 0x0F

HEADER_SIZE = 8
MAX_FRAME = 64 << 10
MAX_OPEN = 96 << 10
MAX_TEXT = 1 << 10
MAX_PROOF = 16 << 10
PROOF_FIELD = b"Towline-Proof"
MAX_ID = (1 << 31) - 1

VERSION = 1

CANCELLED, PROTOCOL, FLOW, NOT_HERE = range(4)

# Only replicas of the control plane use KIND_FORWARD and KIND_REPLICA_REQUEST; no agent serves
# them.
KIND_HTTP, KIND_TCP, KIND_FORWARD, KIND_REPLICA_REQUEST, KIND_DATA_LINK = range(5)
# Feature bits of HELLO.
FEATURE_TCP, FEATURE_ZSTD, FEATURE_REPLICA_REQUESTS, FEATURE_PROOF = 1, 2, 4, 8

FLAG_HEAD, FLAG_UPGRADE, FLAG_NOBODY, FLAG_PASSTHROUGH = 1, 2, 4, 8

_HEADER = struct.Struct(">II")
_HELLO = struct.Struct(">BBHIII16s")
_OPEN = struct.Struct(">BBH16sI")
_U32 = struct.Struct(">I")
_DRAIN = struct.Struct(">II")
_RESET = struct.Struct(">H")
_AUDIT_ID = b"Audit-ID: "


class ProtocolError(Exception):
    """The peer violated the protocol; the link must be closed."""


@dataclass(frozen=True, slots=True)
class Hello:
    """First frame of each direction. `window`: bytes that the sender grants each new stream.
    `data_link`: version of the data link that the sender can open; 0: it can open none.
    """

    instance: bytes
    window: int
    lowest: int = VERSION
    highest: int = VERSION
    features: int = 0
    largest: int = MAX_FRAME
    data_link: int = 0

    def pack(self) -> bytes:
        """Encodes the payload of a HELLO frame."""
        fixed = _HELLO.pack(
            self.lowest, self.highest, 0, self.features, self.window, self.largest, self.instance
        )
        return fixed + bytes([self.data_link])

    @classmethod
    def unpack(cls, payload: Buffer) -> "Hello":
        """Decodes a payload; newer versions may append to it."""
        if len(payload) < _HELLO.size:
            raise ProtocolError("short HELLO")
        lowest, highest, zero, features, window, largest, instance = _HELLO.unpack_from(payload)
        if zero or lowest > highest or not 1024 <= largest:
            raise ProtocolError("bad HELLO")
        # Older versions send none.
        data_link = payload[_HELLO.size] if len(payload) > _HELLO.size else 0
        return cls(instance, window, lowest, highest, features, largest, data_link)


# Not frozen: each request makes one at either end, and freezing would double its cost.
@dataclass(slots=True)
class Open:
    """A request to the agent: the caller (`identity`, header lines) and the request head.

    `head` has no Host field and ends in an empty line. For KIND_TCP it is `host:port`, for
    KIND_FORWARD the header of `proxy.replicas.forward_header` before the request head. For
    KIND_REPLICA_REQUEST it is empty, because the stream's data is the request. For KIND_DATA_LINK
    it is the port of the control plane to dial, and a ticket. `flags` are FLAG_*.
    `window`, if received, is the number of bytes granted for the response.
    """

    head: bytes
    identity: bytes
    request_id: bytes
    flags: int = 0
    window: int = 0
    kind: int = KIND_HTTP

    def pack(self, window: int) -> bytes:
        """Encodes the payload of an OPEN frame that grants `window` bytes for the response."""
        fixed = _OPEN.pack(self.kind, self.flags, len(self.identity), self.request_id, window)
        return fixed + self.identity + self.head

    @classmethod
    def unpack(cls, payload: Buffer) -> "Open":
        """Decodes a payload."""
        if len(payload) < _OPEN.size:
            raise ProtocolError("short OPEN")
        kind, flags, length, request_id, window = _OPEN.unpack_from(payload)
        block_and_head = bytes(payload[_OPEN.size :])
        if length > len(block_and_head):
            raise ProtocolError("OPEN shorter than its identity block")
        return cls(
            block_and_head[length:], block_and_head[:length], request_id, flags, window, kind
        )

    def split_at_audit_id(self) -> tuple[bytes, bytes] | None:
        """Splits the head around the audit ID; None: it has none."""
        before, separator, after = self.head.rpartition(_AUDIT_ID + self.request_id.hex().encode())
        return (before + _AUDIT_ID, after) if separator else None


@dataclass(frozen=True, slots=True)
class Drain:
    """The sender accepts no streams above `last_id`; the others have `grace_ms` to end."""

    last_id: int
    grace_ms: int
    text: str = ""

    def pack(self) -> bytes:
        """Encodes the payload of a DRAIN frame."""
        return _DRAIN.pack(self.last_id, self.grace_ms) + _encode_text(self.text)

    @classmethod
    def unpack(cls, payload: Buffer) -> "Drain":
        """Decodes a payload."""
        if len(payload) < _DRAIN.size:
            raise ProtocolError("short DRAIN")
        last_id, grace_ms = _DRAIN.unpack_from(payload)
        return cls(last_id, grace_ms, _decode_text(payload[_DRAIN.size :]))


def add_proof(identity: bytes, token: bytes) -> bytes:
    """Adds the user's own ID token to an identity block, for agents with FEATURE_PROOF."""
    return b"%s%s: %s\r\n" % (identity, PROOF_FIELD, token)


def split_proof(identity: bytes) -> tuple[bytes, bytes]:
    """Returns an identity block without its proof, and the token; empty: it has none."""
    block, separator, token = identity.partition(b"\r\n%s: " % PROOF_FIELD)
    if not separator:
        return identity, b""
    return block + b"\r\n", token.removesuffix(b"\r\n")


def header(stream_id: int, kind: int, length: int) -> bytes:
    """Encodes the header of a frame; `kind` is the type with its flags."""
    return _HEADER.pack(stream_id, kind << 24 | length)


def frames(message: Buffer) -> Iterator[tuple[int, int, int, int]]:
    """Yields stream id, type with flags, payload start and payload end of each frame."""
    offset, size = 0, len(message)
    while offset < size:
        if size - offset < HEADER_SIZE:
            raise ProtocolError("a frame header exceeds the end of its message")
        stream_id, type_and_length = _HEADER.unpack_from(message, offset)
        kind, length = type_and_length >> 24, type_and_length & 0xFFFFFF
        start, offset = offset + HEADER_SIZE, offset + HEADER_SIZE + length
        if offset > size:
            raise ProtocolError("a frame exceeds the end of its message")
        if length > MAX_FRAME and (kind != OPEN or length > MAX_OPEN):
            raise ProtocolError(f"a frame of {length} bytes")
        yield stream_id, kind, start, offset


def pack_u32(value: int) -> bytes:
    """Encodes the payload of CREDIT and ACK."""
    return _U32.pack(value)


def unpack_u32(payload: Buffer) -> int:
    """Decodes a CREDIT or ACK payload."""
    if len(payload) != _U32.size:
        raise ProtocolError("the payload is not a u32")
    return _U32.unpack_from(payload)[0]


def pack_reset(code: int, text: str) -> bytes:
    """Encodes the payload of RESET."""
    return _RESET.pack(code) + _encode_text(text)


def unpack_reset(payload: Buffer) -> tuple[int, str]:
    """Decodes code and text of a RESET payload."""
    if len(payload) < _RESET.size:
        raise ProtocolError("short RESET")
    return _RESET.unpack_from(payload)[0], _decode_text(payload[_RESET.size :])


def _encode_text(text: str) -> bytes:
    return _cut_text(text).encode()


def _decode_text(payload: Buffer) -> str:
    # What replaces an invalid byte has several.
    return _cut_text(bytes(payload[:MAX_TEXT]).decode(errors="replace"))


def _cut_text(text: str) -> str:
    """Truncates text to its limit in bytes, never within a character."""
    return text.encode()[:MAX_TEXT].decode(errors="ignore")
