"""Frames of HTTP/2: a 9-byte head (length, type, flags, stream id) and a payload (RFC 9113, 4)."""

import struct
from enum import IntEnum

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS = range(5)
PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(5, 10)

END_STREAM = ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
PRIORITIZED = 0x20

HEAD_SIZE = 9
ID_MASK = MAX_WINDOW = (1 << 31) - 1
DEFAULT_WINDOW = 65_535
DEFAULT_FRAME_BYTES, MAX_FRAME_BYTES = 1 << 14, (1 << 24) - 1

_HEAD = struct.Struct(">IBI").pack
_SETTING = struct.Struct(">HI")
_U32 = struct.Struct(">I")
# Six are standard; peers may add others or repeat one.
_MAX_SETTINGS = 32
_TWO = struct.Struct(">II")


class Setting(IntEnum):
    """Settings that each end sends (RFC 9113, 6.5.2)."""

    HEADER_TABLE_SIZE = 1
    ENABLE_PUSH = 2
    MAX_CONCURRENT_STREAMS = 3
    INITIAL_WINDOW_SIZE = 4
    MAX_FRAME_SIZE = 5
    MAX_HEADER_LIST_SIZE = 6


class ErrorCode(IntEnum):
    """Reasons for the end of a stream or a connection (RFC 9113, 7)."""

    NO_ERROR = 0
    PROTOCOL_ERROR = 1
    INTERNAL_ERROR = 2
    FLOW_CONTROL_ERROR = 3
    SETTINGS_TIMEOUT = 4
    STREAM_CLOSED = 5
    FRAME_SIZE_ERROR = 6
    REFUSED_STREAM = 7
    CANCEL = 8
    COMPRESSION_ERROR = 9
    CONNECT_ERROR = 10
    ENHANCE_YOUR_CALM = 11
    INADEQUATE_SECURITY = 12
    HTTP_1_1_REQUIRED = 13


class Http2ProtocolError(Exception):
    """The peer violated the protocol; the connection ends with this code."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


def head(size: int, kind: int, flags: int, stream_id: int) -> bytes:
    """Encodes the head of a frame with a payload of `size` bytes."""
    return _HEAD(size << 8 | kind, flags, stream_id)


def frame(kind: int, flags: int, stream_id: int, payload: bytes = b"") -> bytes:
    """Encodes a frame."""
    return head(len(payload), kind, flags, stream_id) + payload


def settings(values: dict[Setting, int]) -> bytes:
    """Encodes a SETTINGS frame."""
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(*item) for item in values.items()))


def window_update(stream_id: int, grown: int) -> bytes:
    """Encodes a WINDOW_UPDATE that grants `grown` bytes; stream 0 is the connection."""
    return frame(WINDOW_UPDATE, 0, stream_id, _U32.pack(grown))


def rst_stream(stream_id: int, code: ErrorCode) -> bytes:
    """Encodes a RST_STREAM, which ends both directions of a stream."""
    return frame(RST_STREAM, 0, stream_id, _U32.pack(code))


def goaway(last: int, code: ErrorCode, text: str) -> bytes:
    """Encodes a GOAWAY: the sender serves no stream above `last`."""
    return frame(GOAWAY, 0, 0, _TWO.pack(last, code) + text.encode()[:256])


def read_settings(payload: bytes) -> list[tuple[int, int]]:
    """Decodes a SETTINGS payload in order. Raises Http2ProtocolError if it is malformed."""
    if len(payload) % _SETTING.size:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "incomplete setting")
    if len(payload) > _MAX_SETTINGS * _SETTING.size:
        raise Http2ProtocolError(
            ErrorCode.ENHANCE_YOUR_CALM, f"more than {_MAX_SETTINGS} settings in one frame"
        )
    pairs = list(_SETTING.iter_unpack(payload))
    for name, value in pairs:
        if name == Setting.INITIAL_WINDOW_SIZE and value > MAX_WINDOW:
            raise Http2ProtocolError(
                ErrorCode.FLOW_CONTROL_ERROR, f"initial window of {value} exceeds 2^31-1"
            )
        if name == Setting.MAX_FRAME_SIZE and not DEFAULT_FRAME_BYTES <= value <= MAX_FRAME_BYTES:
            raise Http2ProtocolError(
                ErrorCode.PROTOCOL_ERROR, f"invalid maximum frame size {value}"
            )
        if name == Setting.ENABLE_PUSH and value > 1:
            raise Http2ProtocolError(ErrorCode.PROTOCOL_ERROR, f"invalid ENABLE_PUSH value {value}")
    return pairs


def read_u32(payload: bytes, what: str) -> int:
    """Decodes a payload of four bytes. Raises Http2ProtocolError for any other length."""
    if len(payload) != _U32.size:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, f"{what} of {len(payload)} bytes")
    return _U32.unpack(payload)[0]


def read_goaway(payload: bytes) -> tuple[int, int, str]:
    """Decodes a GOAWAY: last stream served, error code, and debug text of the peer."""
    if len(payload) < _TWO.size:
        raise Http2ProtocolError(ErrorCode.FRAME_SIZE_ERROR, "incomplete GOAWAY")
    last, code = _TWO.unpack_from(payload)
    return last & ID_MASK, code, payload[_TWO.size :][:256].decode("ascii", "replace")


def error_name(code: int) -> str:
    """Returns the name of an error code, which may be unknown."""
    try:
        return ErrorCode(code).name.lower().replace("_", " ")
    except ValueError:
        return f"error {code}"
